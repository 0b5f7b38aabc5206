"""The architecture as the paper lists it, for every side; and what labels change."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn

from weft.core.errors import CapabilityError, ConfigError
from weft.models.base import HasLatents, Samples, SamplesClass, offers
from weft.models.generative.dcgan import PRESETS, TINY, DCGANConfig


def kinds(network: nn.Module) -> list[type[nn.Module]]:
    return [type(module) for module in network.modules() if not list(module.children())]


@pytest.mark.parametrize("side", [8, 12, 16, 20, 24, 28, 32, 48, 64])
def test_the_architecture_keeps_to_the_guidelines(side: int) -> None:
    """Strided convolutions only, batch norm but at the generator's end and the discriminator's start, ReLU and tanh, leaky ReLU 0.2."""
    model = DCGANConfig(image=(3, side, side), latent=10, width=2).build()
    made = kinds(model.generator)
    assert set(made) == {nn.Unflatten, nn.ConvTranspose2d, nn.BatchNorm2d, nn.ReLU, nn.Tanh}
    assert made[-2:] == [nn.ConvTranspose2d, nn.Tanh]
    assert made.count(nn.BatchNorm2d) == made.count(nn.ConvTranspose2d) - 1
    seen = kinds(model.discriminator.features)
    assert set(seen) <= {nn.Conv2d, nn.BatchNorm2d, nn.LeakyReLU, nn.Flatten}
    assert seen[:2] == [nn.Conv2d, nn.LeakyReLU]
    assert seen.count(nn.BatchNorm2d) == seen.count(nn.Conv2d) - 1
    assert all(m.negative_slope == 0.2 for m in model.modules() if isinstance(m, nn.LeakyReLU))
    assert all(m.stride == (2, 2) for m in model.modules() if isinstance(m, nn.Conv2d))
    images = model.sample(torch.arange(3)).detach()
    assert images.shape == (3, 3, side, side)
    assert 0 <= float(images.min()) < float(images.max()) <= 1
    assert model.discriminate(images).shape == (3,)


def test_weights_start_from_a_narrow_normal() -> None:
    torch.manual_seed(0)
    model = PRESETS["cifar10"].build()
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.ConvTranspose2d):
            assert abs(float(module.weight.detach().std()) - 0.02) < 0.002
    assert not model.separable


@pytest.mark.parametrize("image", [(1, 7, 7), (1, 8, 16), (1, 18, 18), (8, 8), (0, 8, 8)])
def test_sides_that_cannot_be_halved_are_refused(image: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError):
        DCGANConfig(image=image).build()


def test_a_critic_for_a_penalty_sees_each_image_by_itself() -> None:
    model = dataclasses.replace(TINY, discriminator_norm="layer", generator_norm="none").build()
    assert model.separable
    images = torch.rand(4, 1, 8, 8)
    torch.testing.assert_close(model.discriminate(images)[:1], model.discriminate(images[:1]))


def test_virtual_batch_norm_makes_samples_independent_in_training() -> None:
    model = dataclasses.replace(TINY, generator_norm="virtual").build().train()
    keys = torch.arange(5)
    torch.testing.assert_close(model.sample(keys)[:1], model.sample(keys[:1]), atol=1e-6, rtol=1e-5)
    batch = dataclasses.replace(TINY, generator_norm="batch").build().train()
    assert not torch.allclose(batch.sample(keys)[:2], batch.sample(keys[:2]), atol=1e-4)


def test_a_conditional_model_draws_and_judges_classes() -> None:
    model = dataclasses.replace(TINY, conditional=True, classes=3).build().eval()
    keys, label = torch.arange(4), torch.tensor([0, 1, 2, 0])
    assert offers(model, SamplesClass)
    assert offers(model, Samples)
    images = model.sample_class(keys, label)
    assert not torch.allclose(images, model.sample_class(keys, (label + 1) % 3))
    assert model.sample(keys).shape == (4, 1, 8, 8)
    latents = model.latents(keys)  # noise and a class, as one thing to walk through
    assert latents.shape == (4, TINY.latent + 3)
    drawn = latents[:, TINY.latent :].argmax(1)
    assert torch.equal(model.to_data(latents), model.sample_class(keys, drawn))
    assert torch.equal(model.to_data(latents), model.sample(keys))
    assert not torch.allclose(model.discriminate(images, label), model.discriminate(images, (label + 1) % 3))
    with pytest.raises(CapabilityError, match="class"):
        model.discriminate(images)
    with pytest.raises(CapabilityError, match="without classes"):
        TINY.build().sample_class(keys, label)


def test_a_classifier_is_no_conditional_model() -> None:
    with pytest.raises(ConfigError, match="conditional"):
        dataclasses.replace(TINY, conditional=True, classifier=True, classes=3).build()
    with pytest.raises(CapabilityError, match="classifier"):
        TINY.build().classify(torch.rand(2, 1, 8, 8))
    assert dataclasses.replace(TINY, classifier=True, classes=3).build().classify(torch.rand(2, 1, 8, 8)).shape == (2, 3)


def test_a_generator_of_fully_connected_layers_and_kernels() -> None:
    model = dataclasses.replace(TINY, mlp_width=16, minibatch_kernels=3).build()
    assert not any(isinstance(module, nn.ConvTranspose2d) for module in model.modules())
    assert model.discriminate(model.sample(torch.arange(4))).shape == (4,)
    assert offers(model, HasLatents)
    torch.testing.assert_close(model.to_data(model.latents(torch.arange(4))), model.sample(torch.arange(4)))
