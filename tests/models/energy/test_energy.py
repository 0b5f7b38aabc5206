"""Exact sums over every state."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from weft.core.errors import CapabilityError
from weft.models.energy.energy import couplings, every_state, log_partition


def test_every_state_occurs_once() -> None:
    states = every_state(4, (-1.0, 1.0))
    assert sorted(map(tuple, states.tolist())) == sorted(itertools.product([-1.0, 1.0], repeat=4))
    assert every_state(0).shape == (1, 0)


def test_probabilities_of_any_energy_sum_to_one_and_match_brute_force() -> None:
    def energy(x: torch.Tensor) -> torch.Tensor:
        return x[:, 0] * x[:, 1] - 3 * x[:, 2] * x[:, 3] * x[:, 0] + 0.5 * x.sum(1)

    found = log_partition(energy, 4, like=torch.zeros((), dtype=torch.float64))
    brute = math.log(sum(math.exp(-(a * b - 3 * c * d * a + 0.5 * (a + b + c + d))) for a, b, c, d in itertools.product((0, 1), repeat=4)))
    assert float(found) == pytest.approx(brute, rel=1e-12)
    p = (-energy(every_state(4).double()) - found).exp()
    assert float(p.sum()) == pytest.approx(1, rel=1e-12)


def test_independent_units_at_the_largest_number_that_is_summed() -> None:
    bias = torch.linspace(-2, 2, 20)
    found = log_partition(lambda x: -(x @ bias), 20)
    assert float(found) == pytest.approx(float(torch.nn.functional.softplus(bias).sum()), rel=1e-5)


def test_too_many_units_are_refused() -> None:
    with pytest.raises(CapabilityError, match="at most 20"):
        every_state(21)


def test_couplings_are_symmetric_without_a_diagonal() -> None:
    weight = torch.arange(9.0).view(3, 3)
    assert couplings(weight).tolist() == [[0, 1, 2], [1, 0, 5], [2, 5, 0]]
