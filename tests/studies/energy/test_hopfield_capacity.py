"""Recall breaks down near 0.138 patterns a unit, and steeper energies hold far more."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.core.errors import ConfigError
from weft.studies.energy.hopfield_capacity import Settings, bound, drawn, errors, modern, study

SETTINGS = Settings(units=(60, 300), stored=60)


def test_errors_rise_sharply_around_capacity() -> None:
    low, middle, high = (errors(300, round(load * 300), SETTINGS)[0] for load in (0.08, 0.138, 0.2))
    assert low < 0.005
    assert middle < 0.08
    assert high > 0.1
    assert high > 4 * middle


def test_most_patterns_are_whole_at_half_the_bound_and_few_far_beyond() -> None:
    assert bound(300) == pytest.approx(26.3, abs=0.05)
    assert errors(300, round(bound(300) / 2), SETTINGS)[1] < 0.02
    assert errors(300, round(2 * bound(300)), SETTINGS)[1] > 0.7


def test_a_steeper_energy_holds_more_patterns_than_units() -> None:
    many = drawn(1000, 100, 0)
    assert (modern(many, many) != many).float().mean() < 1e-3


def test_the_page(tmp_path: Path) -> None:
    finding = study(Settings(units=(40, 60), stored=10))
    assert [row[0] for row in finding.rows] == ["40", "60"]
    finding.write(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text().count('class="chart tall') == 2
    with pytest.raises(ConfigError, match="--units"):
        study(Settings(units=(5,)))
