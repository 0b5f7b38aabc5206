"""The two networks' shapes and the noise they start from."""

from __future__ import annotations

import dataclasses

import torch

from weft.models.base import Samples, offers
from weft.models.generative.gan import TINY

CONFIG = dataclasses.replace(TINY, features=12, image=(1, 3, 4))


def test_a_sample_is_a_function_of_its_key() -> None:
    model = CONFIG.build()
    assert offers(model, Samples)
    keys = torch.tensor([7, 8, 9])
    images = model.sample(keys)
    assert images.shape == (3, 1, 3, 4)
    assert images.min() > 0
    assert images.max() < 1
    torch.testing.assert_close(model.sample(keys[1:]), images[1:])
    assert not torch.equal(images[0], images[1])


def test_the_discriminator_judges_examples_of_any_shape() -> None:
    model = CONFIG.build()
    x = torch.rand(5, 12)
    assert model.discriminate(x).shape == (5,)
    torch.testing.assert_close(model.discriminate(x.view(5, 1, 3, 4)), model.discriminate(x))


def test_the_generators_gradient_passes_through_the_discriminator() -> None:
    model = CONFIG.build()
    model.discriminate(model.sample(torch.arange(4))).sum().backward()  # type: ignore[no-untyped-call]
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.generator.parameters())


def test_dropout_is_the_discriminators_only() -> None:
    model = dataclasses.replace(CONFIG, dropout=0.5).build()
    keys = torch.arange(4)
    assert torch.equal(model.sample(keys), model.sample(keys))
    assert not torch.equal(model.discriminate(torch.ones(4, 12)), model.discriminate(torch.ones(4, 12)))
