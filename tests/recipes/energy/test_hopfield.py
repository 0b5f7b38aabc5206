"""The networks recall what they were shown."""

from __future__ import annotations

from pathlib import Path

import pytest

import weft
from weft.core.config import override
from weft.runs.assemble import assemble


def validated(name: str, folder: Path, **changes: object) -> dict[str, float]:
    recipe = override(weft.recipe(name, {"train.device": "cpu"}), {key.replace("__", "."): value for key, value in changes.items()})
    done = assemble(recipe, folder)
    done.trainer.fit()
    assert done.validation is not None
    return done.validation.latest


def test_one_step_stores_random_patterns(tmp_path: Path) -> None:
    found = validated("hopfield/patterns", tmp_path / "run")
    assert found["damaged"] == pytest.approx(0.8, abs=0.02)
    assert found["recalled"] > 0.99
    assert found["recalled_whole"] >= 0.95


def test_digits_resemble_each_other_too_much_for_hebbs_rule(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    learned = validated("hopfield/digits", tmp_path / "learned", train__steps=150, train__eval_every=150)
    hebb = validated("hopfield/digits", tmp_path / "hebb", objective__rule="hebb", train__steps=1)
    assert learned["recalled"] > 0.95
    assert hebb["recalled"] < 0.85
