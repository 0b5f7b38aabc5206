"""Which trials go how far."""

from __future__ import annotations

import pytest

from weft.core.errors import ConfigError
from weft.sweeps.schedule import Bracket, brackets, kept


def test_grid_and_random_train_every_trial_to_the_end() -> None:
    for method in ("grid", "random"):
        assert brackets(method, 7, 100, 10, 3) == [Bracket(7, (100,))]  # type: ignore[arg-type]


def test_halving_begins_short_and_ends_with_one_trial_at_the_end() -> None:
    [bracket] = brackets("halving", 9, 900, 10, 3)
    assert bracket == Bracket(9, (100, 300, 900))
    assert [kept(9, 3), kept(3, 3), kept(1, 3)] == [3, 1, 1]


def test_early_rungs_are_steps_at_which_the_run_is_validated() -> None:
    [bracket] = brackets("halving", 27, 100, 8, 3)
    assert bracket.rungs == (8, 16, 40, 100)
    [short] = brackets("halving", 27, 20, 10, 3)
    assert short.rungs == (10, 20)


def test_hyperband_goes_from_many_short_trials_to_few_long_ones() -> None:
    found = brackets("hyperband", 0, 81, 1, 3)
    assert [bracket.trials for bracket in found] == [81, 34, 15, 8, 5]  # Li et al. 2018, table 1
    assert [bracket.rungs for bracket in found] == [(1, 3, 9, 27, 81), (3, 9, 27, 81), (9, 27, 81), (27, 81), (81,)]


def test_one_in_one_cannot_go_on() -> None:
    with pytest.raises(ConfigError, match="--eta must be at least 2, not 1"):
        brackets("halving", 9, 900, 10, 1)
