from __future__ import annotations

import pytest

from weft.core.errors import ConfigError
from weft.studies.generative.blind_spot import Settings, study


def test_only_the_plain_one_has_a_blind_spot() -> None:
    found = study(Settings(side=9, layers=6, width=8))
    rows = {row[0]: row[1:] for row in found.rows}
    # row 5, column 4 of 9: k columns to the right are seen from k rows above on, so 3 + 2 + 1 pixels are not
    assert rows["PixelCNN"] == ("43 of 49", "6", "0", "1 away")
    assert rows["gated PixelCNN"] == ("49 of 49", "0", "0", "1 away")
    assert int(rows["mask A in every layer"][1]) > 10
    assert rows["mask A in every layer"][2:] == ("0", "none")
    assert found.figure.count("<svg") == 3
    assert "misses 6" in found.claim


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match="--kernel"):
        study(Settings(kernel=4))
