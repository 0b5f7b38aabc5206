"""Tokens made at once learn a task in seconds: words read backwards, foretold by length or cut at END."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import weft
from weft.inference.mask_predict import MaskPredict
from weft.inference.translate import answered
from weft.objectives.language.cmlm import CMLMConfig
from weft.runs.assemble import assemble

SMALL = {
    "data.tokenizer": "bytes",
    "data.max_length": 6,
    "model.layers": 1,
    "model.heads": 4,
    "model.width": 64,
    "model.ffn_width": 128,
    "model.dropout": 0.0,
    "objective.label_smoothing": 0.0,
    "optim.lr": 5e-3,
    "optim.schedule.warmup": 20,
    "train.steps": 320,
    "train.batch": 64,
    "train.eval_every": 0,
    "train.save_every": 0,
    "train.device": "cpu",
    "train.precision": "fp32",
}


def words(number: int, seed: int) -> list[str]:
    chance = random.Random(seed)
    return ["".join(chance.choice("abcdef") for _ in range(chance.randint(2, 5))) for _ in range(number)]


@pytest.mark.parametrize("changes", [{}, {"model.fixed_length": 6, "objective.fixed_length": 6, "train.steps": 240}], ids=["length", "cut"])
def test_words_read_backwards(changes: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("".join(f"{word}\t{word[::-1]}\n" for word in words(4000, 0)))
    recipe = weft.recipe("nat/pairs", SMALL | {"data.path": str(tmp_path / "pairs.tsv")} | changes)
    made = assemble(recipe, tmp_path / "run")
    made.trainer.fit()
    asked = sorted(set(words(300, 1)))
    said = answered(made.trainer.model.eval(), made.data.tokenizer, asked, mask_predict=MaskPredict(iterations=1))
    right = sum(each.text == word[::-1] for each, word in zip(said, asked, strict=True))
    assert right >= 0.95 * len(asked)
    assert {each.passes for each in said} == {1}
    assert {each.stop for each in said} == {"stop" if changes else "length"}
    if not changes:
        double = answered(made.trainer.model, made.data.tokenizer, asked[:8], mask_predict=MaskPredict(candidates=1, length_factor=2.0))
        assert [each.tokens for each in double] == [2 * len(word) for word in asked[:8]]


def test_the_cut_variant_is_the_same_recipe_but_for_its_places() -> None:
    plain, cut = weft.recipe("nat/multi30k"), weft.recipe("nat/multi30k_cut")
    assert isinstance(cut.objective, CMLMConfig)
    assert weft.core.config.override(cut, {"model.fixed_length": 0}).model == plain.model
    assert cut.objective.fixed_length == 64
    assert (cut.data, cut.optim, cut.train) == (plain.data, plain.optim, plain.train)
