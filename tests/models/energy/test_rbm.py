from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from weft.core import random
from weft.models.base import Samples, need
from weft.models.energy.rbm import PRESETS, RBM, RBMConfig


def states(units: int) -> Tensor:
    """Every binary vector of so many units, (2^units, units)."""
    return torch.tensor(list(itertools.product([0.0, 1.0], repeat=units)), dtype=torch.float64)


@pytest.fixture
def model() -> RBM:
    """Six visible and four hidden units with strong weights."""
    torch.manual_seed(0)
    model = RBM(RBMConfig(features=6, hidden=4)).double()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    return model


def joint(model: RBM) -> Tensor:
    """log p(v, h) + log Z of all states, (2^X, 2^H)."""
    v, h = states(6), states(4)
    return -model.energy(v.repeat_interleave(len(h), 0), h.repeat(len(v), 1)).view(len(v), len(h))


def test_free_energy_is_the_sum_over_hidden_states(model: RBM) -> None:
    torch.testing.assert_close(-model.free_energy(states(6)), joint(model).logsumexp(1))


def test_the_normaliser_is_the_same_summed_over_either_side(model: RBM) -> None:
    torch.testing.assert_close(model.log_partition(), joint(model).logsumexp((0, 1)))
    torch.manual_seed(1)
    wide = RBM(RBMConfig(features=3, hidden=7)).double()
    torch.nn.init.normal_(wide.weight)
    torch.testing.assert_close(wide.log_partition(), (-wide.free_energy(states(3))).logsumexp(0))
    p = (-model.free_energy(states(6)) - model.log_partition()).exp()
    torch.testing.assert_close(p.sum(), torch.ones((), dtype=torch.float64))


def test_the_pseudo_likelihood_of_many_units_is_taken_in_parts() -> None:
    torch.manual_seed(0)
    wide = RBM(RBMConfig(features=150, hidden=3)).double()
    torch.nn.init.normal_(wide.weight)
    v = (torch.rand(4, 150) < 0.5).double()
    gains = []
    for unit in range(150):
        other = v.clone()
        other[:, unit] = 1 - other[:, unit]
        gains.append(wide.free_energy(other) - wide.free_energy(v))
    torch.testing.assert_close(wide.pseudo_log_likelihood(v), torch.stack(gains, dim=1).sigmoid().log().sum(1))


def test_conditionals_match_enumeration(model: RBM) -> None:
    table = joint(model).exp()
    hidden = table @ states(4) / table.sum(1, keepdim=True)
    visible = table.mT @ states(6) / table.sum(0).unsqueeze(1)
    torch.testing.assert_close(model.hidden_given_visible(states(6)), hidden)
    torch.testing.assert_close(model.visible_given_hidden(states(4)), visible)


def test_pseudo_log_likelihood_matches_enumeration(model: RBM) -> None:
    v = states(6)
    p = (-model.free_energy(v)).softmax(0)
    place = {tuple(row): i for i, row in enumerate(v.tolist())}
    expected = torch.zeros(len(v), dtype=torch.float64)
    for i, row in enumerate(v):
        for unit in range(6):
            other = row.clone()
            other[unit] = 1 - other[unit]
            expected[i] += (p[i] / (p[i] + p[place[tuple(other.tolist())]])).log()
    torch.testing.assert_close(model.pseudo_log_likelihood(v), expected)


def test_a_sweep_is_two_half_steps_of_all_units(model: RBM) -> None:
    key, v = torch.arange(50), states(6)[:50]
    noise = random.uniform(random.fold(key, 0), 10)
    h = (noise[:, :4] < model.hidden_given_visible(v)).double()
    expected = (noise[:, 4:] < model.visible_given_hidden(h)).double()
    assert torch.equal(model.gibbs(v, key, 1), expected)


def test_gibbs_samples_have_the_model_distribution(model: RBM) -> None:
    samples = model.sample(torch.arange(20_000), steps=60)
    code = (samples * 2.0 ** torch.arange(5, -1, -1)).sum(1).long()
    found = torch.bincount(code, minlength=64) / len(samples)
    expected = (-model.free_energy(states(6))).softmax(0).detach()
    assert (found - expected).abs().max() < 5 * (expected * (1 - expected) / len(samples)).sqrt().max()


def test_samples_do_not_depend_on_their_neighbours() -> None:
    model = RBM(RBMConfig(features=64, image=(1, 8, 8), hidden=16))
    need(model, Samples)
    key = random.keys(0, torch.arange(8))
    together = model.sample(key, 20)
    assert together.shape == (8, 1, 8, 8)
    assert torch.equal(together[3:5], model.sample(key[3:5], 20))


def test_presets_build() -> None:
    model = PRESETS["mnist"].build()
    assert sum(p.numel() for p in model.parameters()) == 784 * 500 + 784 + 500
