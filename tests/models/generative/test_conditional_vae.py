"""Autoencoders that are told of a class: shapes, classes that are asked for, and what a missing label means."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from weft.core.errors import ConfigError
from weft.data.base import UNLABELLED
from weft.models.base import Classifies, HasLatents, SamplesClass, offers
from weft.models.generative.conditional_vae import TINY, SemiSupervisedVAEConfig
from weft.models.generative.vae import TINY as PLAIN
from weft.nn.one_hot import one_hot

CONFIG = dataclasses.replace(TINY, features=16, image=(1, 4, 4), classes=3)
CONVOLUTIONAL = dataclasses.replace(CONFIG, channels=(4, 8), blocks=1)


def test_a_label_that_is_not_known_is_no_class() -> None:
    assert one_hot(torch.tensor([2, UNLABELLED]), 3).tolist() == [[0, 0, 1], [0, 0, 0]]


@pytest.mark.parametrize("config", [CONFIG, CONVOLUTIONAL])
def test_the_class_reaches_code_and_image(config: object) -> None:
    model = config.build()  # type: ignore[attr-defined]
    x, first, second = torch.rand(5, 1, 4, 4), torch.zeros(5).long(), torch.ones(5).long()
    mean, log_variance = model.encode(x, one_hot(first, 3))
    assert mean.shape == log_variance.shape == (5, 4)
    assert not torch.equal(mean, model.encode(x, one_hot(second, 3))[0])
    assert model(x, first).shape == x.shape
    assert not torch.equal(model.decode(mean, one_hot(first, 3)).mean, model.decode(mean, one_hot(second, 3)).mean)


def test_images_may_lie_in_memory_as_they_like() -> None:
    model, x, label = CONVOLUTIONAL.build(), torch.rand(5, 16), torch.zeros(5).long()
    torch.testing.assert_close(model(x.mT.contiguous().mT, label), model(x, label))


@pytest.mark.parametrize("config", [CONFIG, CONVOLUTIONAL])
def test_samples_are_of_the_class_asked_for(config: object) -> None:
    model = config.build()  # type: ignore[attr-defined]
    assert offers(model, SamplesClass)
    assert offers(model, HasLatents)
    assert not offers(dataclasses.replace(PLAIN, features=16).build(), SamplesClass)
    key = torch.arange(40)
    free, latents = model.sample(key), model.latents(key)
    assert free.shape == (40, 1, 4, 4)
    label = latents[:, 4:].argmax(1)
    assert set(label.tolist()) == {0, 1, 2}
    torch.testing.assert_close(model.sample_class(key, label), free)
    torch.testing.assert_close(model.sample_class(key[7:9], label[7:9]), free[7:9])
    assert not torch.equal(model.sample_class(key, (label + 1) % 3), free)


@pytest.mark.parametrize("reading", [(), (4, 8)])
def test_the_semi_supervised_one_tells_the_class(reading: tuple[int, ...]) -> None:
    model = SemiSupervisedVAEConfig(latent=4, hidden=(8,), features=16, image=(1, 4, 4), classes=3, classifier_channels=reading).build()
    assert offers(model, Classifies)
    assert model.classify(torch.rand(5, 1, 4, 4)).shape == (5, 3)
    assert model.classify(torch.rand(5, 16)).shape == (5, 3)


def test_what_cannot_be_built_is_said() -> None:
    with pytest.raises(ConfigError, match=r"--model\.classes"):
        dataclasses.replace(CONFIG, classes=0).build()
    with pytest.raises(ConfigError, match="divisible by 4"):
        dataclasses.replace(CONFIG, image=(1, 6, 6), features=36, channels=(4, 4, 4)).build()
    with pytest.raises(ConfigError, match="is for images"):
        dataclasses.replace(CONFIG, image=(), channels=(4, 4)).build()
    with pytest.raises(ConfigError, match=r"--model\.channels must be at least 1"):
        dataclasses.replace(CONFIG, channels=(4, 0)).build()
