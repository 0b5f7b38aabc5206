"""A mixture keeps its proportions exactly, block by block, and says beforehand how often each source is seen."""

from __future__ import annotations

import numpy as np
import pytest

from weft.data.shards.mixture import BLOCK, Mixture, apportion, proportions


def test_shares_are_whole_and_add_up() -> None:
    assert apportion([60, 22, 8, 8, 3]).sum() == BLOCK  # Table 2.2 of GPT-3, which adds up to 101
    assert np.abs(apportion([60, 22, 8, 8, 3]) / BLOCK - np.array([60, 22, 8, 8, 3]) / 101).max() < 1e-4
    assert apportion([1.0, 1e-12]).tolist() == [BLOCK - 1, 1]
    assert apportion([1.0]).tolist() == [BLOCK]
    assert apportion([1e308, 1e308]).tolist() == apportion([5e-324, 5e-324]).tolist() == [BLOCK // 2, BLOCK // 2]
    assert apportion([1e308, 1e-308]).tolist() == [BLOCK - 1, 1]


def test_proportions_are_those_of_a_division_to_the_bit() -> None:
    """So that runs that were begun go on with the same draws."""
    chance = np.random.default_rng(0)
    for number in range(2, 12):
        weights = chance.uniform(0, 10, number)
        assert (proportions(weights) == weights / weights.sum()).all()


def test_draws_are_a_function_of_their_number() -> None:
    mixture = Mixture([0.6, 0.3, 0.1])
    whole = np.stack(mixture.draws(0, 3 * BLOCK + 77, seed=5))
    for first, count in ((0, 1), (BLOCK - 3, 7), (2 * BLOCK + 5, 1000)):
        assert (np.stack(mixture.draws(first, count, seed=5)) == whole[:, first : first + count]).all()
    assert (np.stack(mixture.draws(0, 1000, seed=6)) != whole[:, :1000]).any()


def test_the_turns_of_a_source_come_in_order() -> None:
    mixture = Mixture([5, 3, 1])
    source, turn = mixture.draws(0, 2 * BLOCK, seed=1)
    for number in range(3):
        assert (turn[source == number] == np.arange(2 * mixture.shares[number])).all()


@pytest.mark.parametrize("draws", [1, 1000, BLOCK, 5 * BLOCK + 12_345])
def test_counts_are_those_of_the_draws(draws: int) -> None:
    mixture = Mixture([0.6, 0.22, 0.08, 0.08, 0.03])
    source, _ = mixture.draws(0, draws, seed=3)
    assert mixture.counts(draws, seed=3).tolist() == np.bincount(source, minlength=5).tolist()


def test_proportions_hold_within_three_deviations_anywhere() -> None:
    weights = np.array([0.6, 0.3, 0.1])
    for first in (0, 123, BLOCK - 500, 10**9):
        source, _ = Mixture(weights).draws(first, 1000, seed=2)
        deviation = np.sqrt(1000 * weights * (1 - weights))
        assert (np.abs(np.bincount(source, minlength=3) - 1000 * weights) < 3 * deviation).all()
