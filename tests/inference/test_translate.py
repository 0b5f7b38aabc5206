"""Texts answered together or alone, and the score of whole translations."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import weft
from tests.contracts.tiny import tiny
from weft.core.errors import CapabilityError, ConfigError
from weft.data.text.number_words import NumberWordsConfig, in_words
from weft.evaluation.evaluate import evaluate
from weft.inference.translate import answer
from weft.runs.load import load


def test_numbers_in_words() -> None:
    said = {0: "zero", 13: "thirteen", 20: "twenty", 85: "eighty-five", 100: "one hundred", 999: "nine hundred ninety-nine"}
    said |= {1000: "one thousand", 12_305: "twelve thousand three hundred five", 900_020: "nine hundred thousand twenty"}
    assert {number: in_words(number) for number in said} == said
    assert len({in_words(number) for number in range(5000)}) == 5000
    data = NumberWordsConfig(pairs=50, limit=60).build()
    assert data.info["training_examples"] + data.info["validation_examples"] == 50
    with pytest.raises(ConfigError, match=r"--data\.pairs must be"):
        NumberWordsConfig(pairs=50, limit=10).build()


def test_answers_do_not_depend_on_each_other_and_bleu_is_sacrebleus(tmp_path: Path) -> None:
    sacrebleu = pytest.importorskip("sacrebleu")
    recipe = tiny("transformer/numbers", tmp_path)
    weft.train(weft.core.config.override(recipe, {"train.steps": 60, "train.device": "cpu", "optim.lr": 1e-2}), out=tmp_path / "run")
    loaded = load(tmp_path / "run", "cpu")
    texts = ["7", "123", "45", "9", "808"]
    together = answer(loaded.model, loaded.tokenizer, texts, beams=2)
    assert together == [answer(loaded.model, loaded.tokenizer, [text], beams=2)[0] for text in texts]
    found = evaluate(loaded)
    assert found.findings is not None
    content = json.loads(found.findings.content)
    rows = content["translations"]
    expected = sacrebleu.corpus_bleu([row["translation"] for row in rows], [[row["reference"] for row in rows]])
    assert found["bleu"] == pytest.approx(expected.score, abs=1e-6)
    assert "tok:13a" in content["signatures"]["bleu"]
    assert all(row["reference"] == in_words(int(row["source"])) for row in rows)
    with pytest.raises(CapabilityError, match="does not offer EncoderDecoder"):
        answer(torch.nn.Linear(1, 1), None, ["a"])
