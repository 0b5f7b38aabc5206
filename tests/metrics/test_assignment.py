"""The cheapest assignment against every assignment, and against scipy."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from weft.metrics.assignment import assignment


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 5), (3, 3), (3, 6), (5, 5)])
@pytest.mark.parametrize("seed", range(6))
def test_it_is_the_cheapest_of_all(rows: int, columns: int, seed: int) -> None:
    cost = np.random.default_rng(seed).normal(size=(rows, columns))
    if seed == 0:
        cost = np.round(cost)  # many are as cheap
    best = min(sum(cost[i, j] for i, j in enumerate(chosen)) for chosen in permutations(range(columns), rows))
    found = assignment(cost)
    assert len(set(found.tolist())) == rows
    assert cost[np.arange(rows), found].sum() == pytest.approx(best)


def test_it_is_that_of_scipy_where_there_are_many() -> None:
    scipy = pytest.importorskip("scipy.optimize")
    for seed in range(5):
        cost = np.random.default_rng(seed).uniform(size=(30, 40))
        chosen = scipy.linear_sum_assignment(cost)
        assert cost[np.arange(30), assignment(cost)].sum() == pytest.approx(cost[chosen].sum())


def test_nothing_and_too_much() -> None:
    assert assignment(np.zeros((0, 3))).tolist() == []
    with pytest.raises(ValueError, match="3 rows cannot"):
        assignment(np.zeros((3, 2)))
