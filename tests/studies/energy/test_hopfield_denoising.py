"""A network far below capacity repairs a fifth of its units; near capacity it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.core.errors import ConfigError
from weft.studies.energy.hopfield_denoising import LOADS, Settings, completed, repaired, study

SETTINGS = Settings(units=200)


def test_at_a_load_of_one_in_twenty_a_fifth_is_repaired() -> None:
    units, whole = repaired(10, 0.2, SETTINGS)
    assert units >= 0.95
    assert whole >= 0.95
    assert completed(10, SETTINGS) >= 0.95


def test_more_damage_or_more_patterns_are_too_much() -> None:
    assert repaired(10, 0.5, SETTINGS)[0] < 0.7
    assert repaired(40, 0.2, SETTINGS)[1] < 0.5


def test_the_page(tmp_path: Path) -> None:
    finding = study(Settings(units=100))
    assert len(finding.rows) == len(LOADS)
    finding.write(tmp_path / "page.html")
    assert 'class="chart tall' in (tmp_path / "page.html").read_text()
    with pytest.raises(ConfigError, match="--units"):
        study(Settings(units=10))
