"""The autoencoder's shapes, distributions and capabilities; its bound is tested with the objective."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch.distributions import Bernoulli, Normal

from weft.core.errors import CapabilityError, ConfigError
from weft.models.base import Samples, offers
from weft.models.generative.vae import TINY

CONFIG = dataclasses.replace(TINY, features=12, image=(1, 3, 4))
GAUSSIAN = dataclasses.replace(CONFIG, decoder="gaussian", noise=0.5)


def test_code_and_reconstruction_have_their_shapes() -> None:
    model = CONFIG.build()
    x = torch.rand(5, 1, 3, 4)
    mean, log_variance = model.encode(x)
    assert mean.shape == log_variance.shape == (5, 4)
    assert model.decode(mean).mean.shape == (5, 12)
    assert model(x).shape == x.shape


def test_the_decoder_gives_the_distribution_asked_for() -> None:
    z = torch.randn(5, 4)
    bernoulli, normal = CONFIG.build().decode(z), GAUSSIAN.build().decode(z)
    assert isinstance(bernoulli, Bernoulli)
    assert isinstance(normal, Normal)
    torch.testing.assert_close(normal.scale, torch.full((5, 12), 0.5))


def test_the_gaussian_decoder_learns_its_noise() -> None:
    """The gradient of the log-likelihood by log variance is (error² / variance - 1) / 2 per pixel."""
    model, x, z = GAUSSIAN.build(), torch.rand(5, 12), torch.randn(5, 4)
    model.decode(z).log_prob(x).sum().backward()  # type: ignore[no-untyped-call]
    assert model.log_variance is not None
    expected = ((x - model.decode(z).mean) ** 2 / 0.25 - 1).sum() / 2
    torch.testing.assert_close(model.log_variance.grad, expected.detach())


@pytest.mark.parametrize("config", [CONFIG, GAUSSIAN])
def test_a_sample_is_a_function_of_its_key(config: object) -> None:
    model = config.build()  # type: ignore[attr-defined]
    assert offers(model, Samples)
    keys = torch.tensor([7, 8, 9])
    images = model.sample(keys)
    assert images.shape == (3, 1, 3, 4)
    torch.testing.assert_close(model.sample(keys[1:]), images[1:])
    assert not torch.equal(images[0], images[1])


def test_samples_without_an_image_shape_are_flat() -> None:
    assert dataclasses.replace(CONFIG, image=()).build().sample(torch.arange(2)).shape == (2, 12)


def test_the_classifier_reads_the_mean_of_the_code() -> None:
    model = dataclasses.replace(CONFIG, classifier=True, classes=3).build()
    x = torch.rand(5, 12)
    torch.testing.assert_close(model.classify(x), model.classify_code(model.encode(x)[0]))
    assert model.classify(x).shape == (5, 3)


def test_what_is_missing_is_said() -> None:
    with pytest.raises(CapabilityError, match=r"--model\.classifier"):
        CONFIG.build().classify(torch.rand(5, 12))
    with pytest.raises(ConfigError, match=r"--model\.noise"):
        dataclasses.replace(GAUSSIAN, noise=0.0).build()
    with pytest.raises(ConfigError, match="at least 1"):
        dataclasses.replace(CONFIG, classifier=True).build()
