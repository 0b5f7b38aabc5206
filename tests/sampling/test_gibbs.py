"""Gibbs sampling against sums over every state."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from weft.core import random
from weft.models.energy.boltzmann import Boltzmann, BoltzmannConfig
from weft.models.energy.energy import every_state
from weft.models.energy.hopfield import Hopfield, HopfieldConfig
from weft.models.energy.rbm import RBM, RBMConfig
from weft.sampling.gibbs import gibbs, marginals

CHAINS = 20_000


@pytest.fixture
def ising() -> Hopfield:
    """Five spins of -1 and 1 with random couplings."""
    torch.manual_seed(1)
    model = Hopfield(HopfieldConfig(features=5)).double()
    torch.nn.init.normal_(model.weight, std=0.5)
    return model


def keys(number: int = CHAINS) -> Tensor:
    return random.keys(0, torch.arange(number))


def test_marginals_of_an_ising_model_are_within_three_deviations(ising: Hopfield) -> None:
    states = every_state(5, ising.values, ising.weight)
    p = (-ising.energy(states)).softmax(0).detach()
    start = torch.ones(CHAINS, 5, dtype=torch.float64)
    drawn = gibbs(ising, start, keys(), 30)
    pairs, wanted = drawn.mT @ drawn / CHAINS, states.mT @ (p.unsqueeze(1) * states)  # E[x x'], whose diagonal is 1
    deviation = ((1 - wanted.square()) / CHAINS).sqrt()
    assert ((pairs - wanted).abs() <= 3 * deviation + 1e-12).all()
    assert (drawn.mean(0).abs() <= 3 / CHAINS**0.5).all()  # without a field, x and -x are as likely
    number = ((drawn > 0) * 2 ** torch.arange(5)).sum(1).bincount(minlength=32) / CHAINS
    assert float((number - p).abs().sum() / 2) < 0.02


def test_the_conditional_of_a_spin_is_the_logistic_of_twice_its_field(ising: Hopfield) -> None:
    states = every_state(5, ising.values, ising.weight)
    p = (-ising.energy(states)).softmax(0)
    for i, block in enumerate(ising.blocks):
        other = states.clone()
        other[:, i] *= -1
        place = ((other > 0) * 2 ** torch.arange(5)).sum(1)
        up = torch.where(states[:, i] > 0, p, p[place])
        expected = up / (p + p[place])
        torch.testing.assert_close(ising.conditional()(states, block)[:, 0], expected)
        torch.testing.assert_close(expected, (2 * states @ ising.couplings()[:, i]).sigmoid())


def test_blocks_of_a_restricted_machine_are_its_sides() -> None:
    torch.manual_seed(2)
    model = RBM(RBMConfig(features=4, hidden=3)).double()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    p = (-model.energy(every_state(7).double()[:, :4], every_state(7).double()[:, 4:])).softmax(0)
    drawn = gibbs(model, torch.zeros(CHAINS, 7, dtype=torch.float64), keys(), 40)
    wanted = p @ every_state(7).double()
    assert ((drawn.mean(0) - wanted).abs() <= 4 * (wanted * (1 - wanted) / CHAINS).sqrt()).all()
    through = marginals(model, torch.zeros(2000, 7, dtype=torch.float64), keys(2000), 200).mean(0)
    assert (through - wanted).abs().max() < 0.01


def test_units_outside_the_blocks_keep_their_values() -> None:
    model = Boltzmann(BoltzmannConfig(features=4, hidden=3))
    start = torch.ones(50, 7)
    moved = gibbs(model, start, keys(50), 3, blocks=model.hidden_blocks)
    assert torch.equal(moved[:, :4], start[:, :4])
    assert not torch.equal(moved[:, 4:], start[:, 4:])
    assert torch.equal(start, torch.ones(50, 7))


def test_a_chain_does_not_depend_on_its_neighbours(ising: Hopfield) -> None:
    start = torch.ones(8, 5, dtype=torch.float64)
    together = gibbs(ising, start, keys(8), 5)
    assert torch.equal(together[2:4], gibbs(ising, start[2:4], keys(8)[2:4], 5))
