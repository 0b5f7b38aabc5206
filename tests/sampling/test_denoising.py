"""What a chain fills in or cleans is the posterior by enumeration."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from weft.core import random
from weft.core.errors import ConfigError
from weft.models.energy.boltzmann import Boltzmann, BoltzmannConfig
from weft.models.energy.energy import every_state
from weft.models.energy.rbm import RBM, RBMConfig

X, H = 5, 3


def machine(kind: str) -> Boltzmann | RBM:
    torch.manual_seed(4)
    model = BoltzmannConfig(features=X, hidden=H).build() if kind == "boltzmann" else RBMConfig(features=X, hidden=H).build()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.8)
    return model


def posterior(model: Boltzmann | RBM, likelihood: Tensor) -> Tensor:
    """The chance of 1 of each visible unit, given log p(what was seen | v) (2^X,) of every v."""
    return ((likelihood - model.free_energy(every_state(X))).softmax(0) @ every_state(X)).detach()


@pytest.mark.parametrize("kind", ["boltzmann", "rbm"])
def test_completion_is_the_posterior_given_what_is_known(kind: str) -> None:
    model, x = machine(kind), torch.tensor([1.0, 0.0, 1.0, 1.0, 0.0])
    known = torch.tensor([True, True, False, False, False])
    agrees = (every_state(X)[:, known] == x[known]).all(1)
    wanted = posterior(model, torch.where(agrees, 0.0, -torch.inf))
    many = 400
    found = model.inpaint(x.repeat(many, 1), known.repeat(many, 1), random.keys(0, torch.arange(many)), 60)
    assert torch.equal(found[:, known], x[known].repeat(many, 1))
    torch.testing.assert_close(found.mean(0), wanted, atol=0.02, rtol=0)


@pytest.mark.parametrize("kind", ["boltzmann", "rbm"])
def test_cleaning_is_the_posterior_given_a_noisy_channel(kind: str) -> None:
    model, x, flipped = machine(kind), torch.tensor([1.0, 0.0, 1.0, 1.0, 0.0]), torch.tensor(0.2)
    same = (every_state(X) == x).float().sum(1)
    wanted = posterior(model, same * (1 - flipped).log() + (X - same) * flipped.log())
    many = 400
    found = model.denoise(x.repeat(many, 1), float(flipped), random.keys(0, torch.arange(many)), 60)
    torch.testing.assert_close(found.mean(0), wanted, atol=0.02, rtol=0)


def test_images_keep_their_shape_and_shares_are_checked() -> None:
    model = RBMConfig(features=4, image=(1, 2, 2), hidden=2).build()
    x, key = torch.ones(3, 1, 2, 2), random.keys(0, torch.arange(3))
    assert model.inpaint(x, x > 0, key, 2).shape == x.shape
    assert torch.equal(model.inpaint(x, x < 0), model.inpaint(x, x < 0))  # the noise is the same where no key is given
    assert model.denoise(x, 0.1, key, 2).shape == x.shape
    with pytest.raises(ConfigError, match="between 0 and 1"):
        model.denoise(x, 0.0, key)
