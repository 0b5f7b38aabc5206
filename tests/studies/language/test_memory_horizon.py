"""For how many steps a symbol is remembered depends on how open the gates begin."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from weft.core.errors import ConfigError
from weft.studies.language.memory_horizon import Settings, accuracy, horizon, network, study


def test_open_gates_remember_where_those_with_a_bias_of_1_do_not() -> None:
    settings = Settings(steps=230)
    assert accuracy(settings, "lstm", 40, 1, longest=100) > 0.9
    assert accuracy(settings, "lstm", 40, 1) < 0.6


def test_gates_begin_open_for_the_longest_lag() -> None:
    for cell in ("lstm", "gru"):
        bias = network(Settings(width=500), cell, 0, 100).rnn.bias_ih[500:1000]
        kept = 1 / (1 - bias.sigmoid())  # steps after which a share of 1/e is left, about
        assert 1.9 < kept.min() < 10
        assert 90 < kept.max() < 101


def test_the_horizon_ends_with_the_first_lag_that_is_not_remembered() -> None:
    assert horizon({5: 1.0, 10: 0.95, 20: 0.5, 40: 1.0}) == 10
    assert horizon({5: 0.3}) == 0


def test_the_page_and_settings_that_cannot_be(tmp_path: Path) -> None:
    small = Settings(cells=("rnn", "lstm"), lags=(2, 4), width=8, steps=2, seeds=1)
    finding = study(small)
    assert [row[0] for row in finding.rows] == [*["rnn"] * 2, *["lstm"] * 2, *["lstm, gates open"] * 2]
    finding.write(tmp_path / "page.html")
    with pytest.raises(ConfigError, match="no recurrent cell is called 'lstn'"):
        study(dataclasses.replace(small, cells=("lstn",)))
    with pytest.raises(ConfigError, match="at least 1"):
        study(dataclasses.replace(small, lags=()))
