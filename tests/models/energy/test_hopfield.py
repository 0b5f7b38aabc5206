from __future__ import annotations

import pytest
import torch
from torch import Tensor

from weft.core import random
from weft.models.base import Inpaints, Recalls, Samples, need
from weft.models.energy.energy import every_state
from weft.models.energy.hopfield import PRESETS, Hopfield, HopfieldConfig


def patterns(number: int, units: int) -> Tensor:
    return 2.0 * (random.uniform(random.keys(0, torch.arange(number)), units) < 0.5) - 1


def network(stored: Tensor) -> Hopfield:
    model = Hopfield(HopfieldConfig(features=stored.size(1)))
    model.store(stored)
    return model


def test_hebbs_rule_has_no_diagonal() -> None:
    x = patterns(3, 20)
    expected = sum(row.outer(row) for row in x) / 3
    expected.fill_diagonal_(0)
    torch.testing.assert_close(network(x).couplings(), expected)


def test_the_energy_is_the_sum_over_pairs() -> None:
    model = network(patterns(3, 8))
    x, w = patterns(5, 8), model.couplings()
    pairs = [-sum(w[i, j] * row[i] * row[j] for i in range(8) for j in range(i)) for row in x]
    torch.testing.assert_close(model.energy(x), torch.stack(pairs))


def test_the_energy_never_rises_unit_by_unit() -> None:
    """Recall with one unit known to change at a time is the same descent, seen step by step."""
    model = network(patterns(12, 60))  # beyond capacity, so that there is far to go
    x = patterns(40, 60).roll(1, 1)
    before, flips = model.energy(x), 0
    for number in range(3):
        for i in random.permute(torch.arange(60).numpy(), 60, random.seed_of("recall", number)).tolist():
            known = torch.ones(40, 60, dtype=torch.bool)
            known[:, i] = False
            moved = model.recall(x, sweeps=1, known=known)
            after = model.energy(moved)
            assert (after <= before + 1e-4).all()
            flips += int((moved != x).sum())
            x, before = moved, after
    assert flips > 100
    assert torch.equal(x, model.recall(patterns(40, 60).roll(1, 1), sweeps=3))


def test_a_pattern_and_its_negation_are_fixed_points() -> None:
    x = patterns(5, 200)
    model = network(x)
    assert torch.equal(model.recall(x), x)
    assert torch.equal(model.recall(-x), -x)
    torch.testing.assert_close(model.energy(x), model.energy(-x))


def test_one_stored_pattern_is_a_minimum_but_not_the_only_one() -> None:
    x = patterns(1, 10)
    energies = network(x).energy(every_state(10, (-1.0, 1.0)))
    assert int((energies == energies.min()).sum()) == 2


def test_damaged_and_half_known_patterns_come_back() -> None:
    x = patterns(10, 200)
    model, key = network(x), random.keys(1, torch.arange(10))
    damaged = torch.where(random.uniform(key, 200) < 0.2, -x, x)
    assert (model.recall(damaged) == x).float().mean() > 0.99
    known = (torch.arange(200) < 100).expand_as(x)
    assert torch.equal(model.inpaint((x + 1) / 2, known, key), (x + 1) / 2)
    torch.testing.assert_close(model.denoise((damaged + 1) / 2, 0.2, key), (model.recall(damaged) + 1) / 2)


def test_known_units_are_held_even_against_their_field() -> None:
    x = patterns(1, 50)
    known = torch.zeros(1, 50, dtype=torch.bool)
    known[0, :5] = True
    start = x.clone()
    start[0, :5] *= -1
    found = network(x).recall(start, known=known)
    assert torch.equal(found[0, :5], start[0, :5])
    assert torch.equal(found[0, 5:], x[0, 5:])


def test_without_couplings_nothing_moves() -> None:
    x = patterns(4, 30)
    assert torch.equal(Hopfield(HopfieldConfig(features=30)).recall(x), x)


def test_probabilities_sum_to_one() -> None:
    torch.manual_seed(0)
    model = Hopfield(HopfieldConfig(features=8)).double()
    torch.nn.init.normal_(model.weight)
    states = every_state(8, model.values, model.weight)
    assert float((-model.energy(states) - model.log_partition()).exp().sum().detach()) == pytest.approx(1, rel=1e-12)


def test_pseudo_likelihood_matches_enumeration() -> None:
    torch.manual_seed(0)
    model = Hopfield(HopfieldConfig(features=4)).double()
    torch.nn.init.normal_(model.weight)
    states = every_state(4, model.values, model.weight)
    chances = torch.cat([model.conditional()(states, block) for block in model.blocks], dim=1)
    expected = torch.where(states > 0, chances, 1 - chances).log().sum(1)
    torch.testing.assert_close(model.pseudo_log_likelihood(states), expected)


def test_what_it_offers() -> None:
    model = PRESETS["tiny"].__class__(features=16, image=(1, 4, 4)).build()
    for capability in (Recalls, Samples, Inpaints):
        need(model, capability)
    assert model.sample(torch.arange(3)).shape == (3, 1, 4, 4)


def test_without_patterns_nothing_is_known() -> None:
    network = HopfieldConfig(features=3).build()
    network.store(torch.ones(1, 3))
    network.store(torch.zeros(0, 3))
    assert not network.couplings().any()
