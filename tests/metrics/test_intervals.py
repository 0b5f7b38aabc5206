"""Intervals are those of the formulas, worked by hand, and cover as often as they say."""

from __future__ import annotations

import math

import numpy as np
import pytest

from weft.metrics.intervals import bootstrap, student, wilson


def test_wilson_is_the_formula() -> None:
    assert wilson(8, 10) == pytest.approx((0.490162, 0.943318), abs=1e-6)  # Newcombe, 1998: 8 of 10
    z2 = 1.959963984540054**2
    assert wilson(0, 20) == pytest.approx((0.0, z2 / (20 + z2)))
    low, high = wilson(20, 20)
    assert (low, high) == pytest.approx((20 / (20 + z2), 1.0))


def test_student_is_the_formula() -> None:
    low, high = student([1.0, 2.0, 3.0])
    assert (low + high) / 2 == pytest.approx(2.0)
    assert (high - low) / 2 == pytest.approx(4.302653 / math.sqrt(3), abs=1e-6)


def test_the_bootstrap_of_a_mean_is_the_normal_interval() -> None:
    values = np.random.default_rng(1).normal(3.0, 2.0, size=400)
    rows = np.stack([values, np.ones(400)], axis=1)
    [(low, high)] = bootstrap(rows, lambda sums: [sums[0] / sums[1]])
    half = 1.96 * values.std() / 20
    assert low == pytest.approx(values.mean() - half, abs=0.1 * half)
    assert high == pytest.approx(values.mean() + half, abs=0.1 * half)
    assert bootstrap(rows, lambda sums: [sums[0]]) == bootstrap(rows, lambda sums: [sums[0]]), "one seed, one interval"
