from __future__ import annotations

import numpy as np
import pytest

from weft.core.errors import ConfigError
from weft.data import split
from weft.data.base import UNLABELLED, Problems


def test_parts_are_disjoint_complete_and_the_same_every_time() -> None:
    labels = np.arange(1000) % 7
    train, held = split.hold_out(labels, 0.1, Problems())
    assert len(held) == 100
    assert sorted([*train, *held]) == list(range(1000))
    assert (split.hold_out(labels, 0.1, Problems())[1] == held).all()


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_every_class_is_trained_on(share: float) -> None:
    labels = np.array([0] * 50 + [1, 2, 3] + [UNLABELLED] * 50)
    train, held = split.hold_out(labels, share, Problems())
    assert set(labels[train]) == {0, 1, 2, 3, UNLABELLED}
    assert UNLABELLED not in labels[held]
    assert len(held)


def test_a_single_example_is_trained_on_and_that_is_said() -> None:
    problems = Problems()
    train, held = split.hold_out(np.array([0]), 0.5, problems)
    assert list(train) == [0]
    assert not len(held)
    assert problems.counts
    assert not len(split.hold_out(np.zeros(5, dtype=np.int64), 0.0, Problems())[1])


@pytest.mark.parametrize("share", [-0.1, 1.0, float("nan")])
def test_shares_that_make_no_sense(share: float) -> None:
    with pytest.raises(ConfigError, match=r"--data\.validation"):
        split.hold_out(np.zeros(5, dtype=np.int64), share, Problems())


def test_labels_are_withheld_evenly() -> None:
    labels = np.array([0] * 90 + [1] * 10 + [UNLABELLED] * 5)
    kept = split.hide_labels(labels, 0.1)
    assert [(kept == c).sum() for c in (0, 1)] == [5, 5]
    assert (kept[kept != UNLABELLED] == labels[kept != UNLABELLED]).all()
    assert (split.hide_labels(labels, 1.0) == labels).all()
    assert (split.hide_labels(labels, 0.0) == UNLABELLED).all()


def test_classes_that_are_numbers_stand_in_their_order() -> None:
    assert split.number_classes(["10", "9", "-1"])[1] == ["-1", "9", "10"]
    numbers, names = split.number_classes(["b", "a", "10", "b"])
    assert [names[i] for i in numbers] == ["b", "a", "10", "b"]
    assert split.number_classes(["--1", "9" * 5000])[1] == ["--1", "9" * 5000]
