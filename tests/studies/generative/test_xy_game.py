"""The four ways of playing J = -xy against what is known of them."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from weft.studies.generative.xy_game import Settings, alternating, extragradient, historical, radius, simultaneous, study

START = (1.0, 0.5)


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5])
def test_simultaneous_steps_grow_by_a_known_factor(rate: float) -> None:
    course = simultaneous(START, rate, 50)
    for before, after in pairwise(course):
        assert radius(after) == pytest.approx(radius(before) * math.sqrt(1 + rate**2))


def test_alternating_steps_stay_on_their_orbit() -> None:
    """x² + y² + rate x y never changes."""
    course = alternating(START, 0.1, 5000)
    kept = [x * x + y * y + 0.1 * x * y for x, y in course]
    assert max(kept) == pytest.approx(min(kept))
    assert min(map(radius, course)) > 0.9 * radius(START)


@pytest.mark.parametrize("way", [extragradient, historical])
def test_looking_ahead_and_back_reach_the_equilibrium(way: object) -> None:
    course = way(START, 0.1, 3000)  # type: ignore[operator]
    assert radius(course[-1]) < 1e-2
    assert radius(course[-1]) < radius(course[1500])


def test_the_study_tells_them_apart() -> None:
    found = study(Settings(steps=100))
    assert [row[0] for row in found.rows] == ["simultaneous", "alternating", "extragradient", "historical averaging"]
    assert "<svg" in found.figure
