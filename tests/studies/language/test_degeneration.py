"""Likeliest and drawn text: the measures by hand, and the study on a small model."""

from __future__ import annotations

from pathlib import Path

import pytest

import weft
from weft.core.errors import ConfigError
from weft.studies.language.degeneration import Settings, distinctness, repeated, repetition, study


def test_measures_by_hand() -> None:
    assert repeated([1, 2, 1, 2, 1, 3], 2) == [False, False, True, True, False]
    assert repetition([[1, 1, 1, 1], [1, 2, 3, 4]], 1) == pytest.approx(0.375)
    assert distinctness([[1, 2, 3], [1, 2, 4]], 2) == pytest.approx(0.75)
    assert repetition([[1]], 4) == 0.0


def test_the_likeliest_text_repeats_itself(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("".join(f"the {a} {b} saw {c} of them. " for a in "abcdefgh" for b in "stuvwxyz" for c in range(10)))
    small = {"data.path": str(tmp_path / "text.txt"), "data.context": 64, "model.layers": 1, "model.width": 32, "model.heads": 2}
    weft.train(weft.recipe("gpt/text", {**small, "train.steps": 60, "train.device": "cpu"}), out=tmp_path / "run")
    settings = Settings(run=str(tmp_path / "run"), passages=6, prompt=8, tokens=48, beams=3, ngram=6, device="cpu")
    finding = study(settings)
    table = {row[0]: [float(value) for value in row[1:]] for row in finding.rows}
    assert list(table) == ["beam 3", "greedy", "drawn", "drawn, top-k 40", "drawn, top-p 0.95", "people"]
    assert table["beam 3"][0] <= table["greedy"][0] + 0.01 < table["drawn"][0]  # what is searched for surprises least
    assert table["beam 3"][1] > table["drawn"][1]
    assert "perplexity" in finding.claim
    finding.write(tmp_path / "page.html")
    other = Settings(run=str(tmp_path / "run"), text=str(tmp_path / "text.txt"), passages=2, prompt=8, tokens=20, beams=2, device="cpu")
    assert len(study(other).rows) == 6
    with pytest.raises(ConfigError, match="no passage has 5008 tokens"):
        study(Settings(run=str(tmp_path / "run"), prompt=8, tokens=5000, device="cpu"))
