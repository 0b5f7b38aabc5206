"""The laws of attention and linear layers against PyTorch's counter, and what the page says of them."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Literal

import pytest

from weft.core.errors import ConfigError
from weft.studies.language.perceiver_cost import VOCABULARY, Cost, Settings, count, describe, law, model, study

SMALL = Settings(lengths=(16, 32), bottlenecks=(4, 8, 32), layers=3, heads=2, width=8, repeats=1)


@pytest.mark.parametrize("queries", ["learned", "last"])
@pytest.mark.parametrize("layers", [3, 5])
def test_the_laws_are_what_is_counted(queries: Literal["learned", "last"], layers: int) -> None:
    """Attention by its law; linear layers as twelve squares of the width for every position of every block, and the head."""
    width = 8
    settings = Settings(layers=layers, heads=2, width=width, queries=queries)
    for length, m in product((6, 12), (0, 1, 5, 6)):
        attention, linear = count(model(settings, (length, m)), length)
        assert attention == law(settings, (length, m))
        blocks = {"learned": 12 * (length + (layers - 1) * m), "last": 2 * length + 10 * m + 12 * (layers - 1) * m}[queries]
        assert linear == width**2 * (blocks if m else 12 * layers * length) + width * VOCABULARY * length


def test_half_the_length_saves_half_of_the_linear_layers_and_three_quarters_of_the_attention() -> None:
    settings = Settings()
    (attention, linear), (short_attention, short_linear) = (count(model(settings, (length, 0)), length) for length in (128, 64))
    assert 4 * short_attention == attention
    assert 2 * short_linear == linear
    assert 0.51 < 1 - (short_attention + short_linear) / (attention + linear) < 0.53  # not 75 %


def test_a_latent_for_every_position_saves_nothing() -> None:
    for settings in (Settings(queries="learned"), Settings(queries="last")):
        assert law(settings, (128, 128)) == law(settings, (128, 0))


def test_the_page(tmp_path: Path) -> None:
    finding = study(SMALL)
    assert [row[:2] for row in finding.rows] == [("16", "GPT"), ("16", "4"), ("16", "8"), *(("32", m) for m in ("GPT", "4", "8", "32"))]
    assert "the count agrees exactly in all 7 cases" in finding.claim
    assert "Half the length saves 75 % of these products but only 50 % of the linear layers" in finding.claim
    finding.write(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text().count('class="chart tall') == 3


def test_words_follow_the_numbers() -> None:
    settings = Settings(lengths=(10, 20), bottlenecks=(5,))
    found = {
        (10, 0): Cost(100, 100, 900, 1.0),
        (10, 5): Cost(50, 51, 350, 0.5),
        (20, 0): Cost(400, 400, 1600, 2.0),
        (20, 5): Cost(100, 100, 500, 0.2),
    }
    claim = describe(settings, found).claim
    assert "the count differs in 1 of 4 cases" in claim
    assert "only 44 % of the linear layers: of a whole GPT 50 % at ℓ = 20." in claim
    assert "With m = 5 a Perceiver needs of a GPT's multiply-adds 40 % at ℓ = 10 (50 % of its step time) and 30 % at ℓ = 20 (10 %" in claim


@pytest.mark.parametrize("settings", [Settings(lengths=()), Settings(bottlenecks=(0,))])
def test_impossible_settings_are_named(settings: Settings) -> None:
    with pytest.raises(ConfigError, match="--lengths and --bottlenecks need at least one number each"):
        study(settings)
