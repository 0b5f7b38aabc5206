from __future__ import annotations

import pytest

from weft.core.errors import ConfigError
from weft.studies.generative.flow_cost import PASSES, Settings, study


def test_every_direction_is_timed() -> None:
    found = study(Settings(dimensions=(4, 32), determinants=(8, 256), batch=4, hidden=16, repeats=2))
    assert [row[0] for row in found.rows] == ["any Jacobian, d³", "triangular, d", *PASSES]
    ratio = {row[0]: float(row[4]) for row in found.rows}
    assert ratio["MAF samples"] > ratio["MAF density"], "eight times as many passes"
    assert ratio["IAF density"] > ratio["IAF samples"]
    assert "8 times as many dimensions" in found.claim
    assert "<svg" in found.figure


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match="--dimensions"):
        study(Settings(dimensions=()))
