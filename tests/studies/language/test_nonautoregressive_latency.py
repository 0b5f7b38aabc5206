"""Time by length: every way at every length, of exactly that length, and a claim that says what was found."""

from __future__ import annotations

from typing import Any

import pytest

from weft.core.errors import ConfigError
from weft.studies.language.nonautoregressive_latency import ONE_BY_ONE, Settings, describe, study, ways

SMALL: dict[str, Any] = {"lengths": (3, 6), "iterations": (1, 2), "layers": 1, "heads": 2, "width": 16, "ffn_width": 32, "repeats": 1}


def test_every_way_makes_exactly_the_wanted_length() -> None:
    for way, make in ways(Settings(**SMALL, device="cpu"), 6).items():
        made: Any = make()
        assert len(made[0][0].ids if way == ONE_BY_ONE else made[0]) == 6


def test_table_and_figure() -> None:
    found = study(Settings(**SMALL, device="cpu"))
    assert found.head[1:4] == (ONE_BY_ONE, "in one pass", "in 2 passes")
    assert [row[0] for row in found.rows] == ["3", "6"]
    assert "<svg" in found.figure


def test_the_claim_is_computed() -> None:
    times = {(ONE_BY_ONE, 3): 0.1, (ONE_BY_ONE, 6): 0.2, ("in one pass", 3): 0.01, ("in one pass", 6): 0.011}
    made = describe(Settings(**{**SMALL, "iterations": (1,)}, device="cpu"), times)
    assert "takes 2.0 times as long as one of 3 token by token, and 1.1 times in one pass, which is then 18 times as fast" in made.claim
    assert made.rows[1] == ("6", "200.0 ms", "11.0 ms", "18.2")


@pytest.mark.parametrize("changes", [{"lengths": ()}, {"iterations": (0,)}, {"repeats": 0}])
def test_settings_that_make_no_sense(changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"--{next(iter(changes))} "):
        study(Settings(**{**SMALL, **changes}))
