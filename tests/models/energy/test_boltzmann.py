from __future__ import annotations

import pytest
import torch

from weft.core import random
from weft.core.errors import CapabilityError, ConfigError
from weft.models.base import Inpaints, Samples, need
from weft.models.energy.boltzmann import PRESETS, Boltzmann, BoltzmannConfig
from weft.models.energy.energy import every_state


def machine(features: int, hidden: int, scale: float = 1.0) -> Boltzmann:
    torch.manual_seed(0)
    model = Boltzmann(BoltzmannConfig(features=features, hidden=hidden)).double()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=scale)
    return model


def test_probabilities_sum_to_one() -> None:
    for model in (machine(8, 0), machine(5, 3)):
        states = every_state(8, like=model.bias)
        assert float((-model.energy(states) - model.log_partition()).exp().sum().detach()) == pytest.approx(1, rel=1e-12)


def test_the_free_energy_sums_over_hidden_states() -> None:
    model = machine(4, 3)
    v = every_state(4, like=model.bias)
    every = every_state(7, like=model.bias)
    for row, found in zip(v, model.free_energy(v), strict=True):
        mine = every[(every[:, :4] == row).all(1)]
        torch.testing.assert_close(-found, (-model.energy(mine)).logsumexp(0))
    torch.testing.assert_close((-model.free_energy(v)).logsumexp(0), model.log_partition())
    visible = machine(4, 0)
    torch.testing.assert_close(visible.free_energy(v), visible.energy(v))


def test_conditionals_match_enumeration() -> None:
    model = machine(3, 2)
    states = every_state(5, like=model.bias)
    for block in model.blocks:
        up, down = states.clone(), states.clone()
        up[:, block], down[:, block] = 1, 0
        odds = model.energy(down) - model.energy(up)
        torch.testing.assert_close(model.conditional()(states, block)[:, 0], odds.sigmoid())
    assert sorted(block.start for block in model.blocks) == [0, 1, 2, 3, 4]


def test_clamped_chains_draw_hidden_units_given_visible_ones() -> None:
    model, many = machine(3, 2), 20_000
    v = torch.tensor([[1.0, 0.0, 1.0]], dtype=torch.float64)
    s = model.clamped(v.repeat(many, 1), random.keys(0, torch.arange(many)), 20)
    assert torch.equal(s[:, :3], v.repeat(many, 1))
    h = every_state(2, like=v)
    p = (-model.energy(torch.cat([v.repeat(4, 1), h], dim=1))).softmax(0)
    wanted = (p @ h).detach()
    assert ((s[:, 3:].mean(0) - wanted).abs() <= 4 * (wanted * (1 - wanted) / many).sqrt()).all()
    assert torch.equal(machine(3, 0).clamped(v, torch.arange(1), 5), v)


def test_pseudo_likelihood_matches_enumeration() -> None:
    model = machine(4, 0)
    v = every_state(4, like=model.bias)
    chances = torch.cat([model.conditional()(v, slice(i, i + 1)) for i in range(4)], dim=1)
    torch.testing.assert_close(model.pseudo_log_likelihood(v), torch.where(v > 0, chances, 1 - chances).log().sum(1))
    with pytest.raises(CapabilityError, match="hidden"):
        machine(2, 2).pseudo_log_likelihood(every_state(2, like=model.bias))


def test_samples_have_the_model_s_means() -> None:
    model, many = machine(4, 2), 10_000
    drawn = model.sample(random.keys(0, torch.arange(many)), 40)
    wanted = ((-model.free_energy(every_state(4, like=model.bias))).softmax(0) @ every_state(4, like=model.bias)).detach()
    assert ((drawn.mean(0) - wanted).abs() <= 4 * (wanted * (1 - wanted) / many).sqrt()).all()


def test_what_it_offers_and_refuses() -> None:
    model = BoltzmannConfig(features=16, image=(1, 4, 4), hidden=2).build()
    for capability in (Samples, Inpaints):
        need(model, capability)
    assert model.sample(torch.arange(3), 2).shape == (3, 1, 4, 4)
    assert PRESETS["tiny"].hidden == 4
    with pytest.raises(ConfigError, match="hidden"):
        BoltzmannConfig(features=4, hidden=-1).build()
    with pytest.raises(CapabilityError, match="at most 20"):
        machine(30, 0).log_partition()
