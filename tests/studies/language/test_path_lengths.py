"""Operations between two tokens, measured by gradients, are what the formulas say."""

from __future__ import annotations

import pytest

from weft.core.errors import ConfigError
from weft.studies.language.path_lengths import Settings, attention, stacked, study


def test_measured_paths_are_those_of_the_formulas() -> None:
    found = study(Settings(lengths=(5, 9, 10), width=4))
    assert "as the formulas say" in found.claim and "but for" not in found.claim
    table = {row[0]: [cell.split()[0] for cell in row[2:5]] for row in found.rows}
    assert table == {"recurrent": ["4", "8", "9"], "ConvS2S": ["2", "4", "5"], "ByteNet": ["2", "2", "3"], "Transformer": ["1", "1", "1"]}
    wider = {row[0]: row[2].split()[0] for row in study(Settings(lengths=(9,), width=4, kernel=5)).rows}
    assert wider["ConvS2S"] == "2" and wider["ByteNet"] == "2"
    assert "text/csv" in found.figure and "n, tokens" in found.figure


def test_one_layer_of_attention_reaches_the_first_token() -> None:
    settings = Settings(width=4)
    assert stacked(settings, 30, lambda _: attention(settings, 30))[0] == 1


def test_settings_that_cannot_work() -> None:
    with pytest.raises(ConfigError, match="at least 2"):
        study(Settings(lengths=(1,)))
