"""Finetuning a pretrained BERT for spans and tags: its words and weights are taken over, its head is new."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import weft
from tests.contracts.tiny import tiny
from weft.runs.assemble import adopt, assemble
from weft.training.checkpoint import checkpoint

ONCE = {"train.steps": 1, "train.eval_every": 0, "train.device": "cpu"}


@pytest.mark.parametrize(("name", "outputs"), [("bert/answers", 2), ("bert/tags", 3)])
def test_a_pretrained_model_is_finetuned_and_evaluated(name: str, outputs: int, tmp_path: Path) -> None:
    weft.train(tiny("bert/pairs", tmp_path, ONCE), tmp_path / "pretrained")
    start = str(tmp_path / "pretrained")
    recipe = adopt(tiny(name, tmp_path, ONCE), start)
    assert recipe.model.task == recipe.name.removeprefix("bert/").rstrip("s")  # type: ignore[attr-defined]
    made = assemble(recipe, tmp_path / "run", init=start)
    theirs = checkpoint.find(start)
    kept = theirs.tensors("model.safetensors")
    own = made.trainer.model.state_dict()
    assert all(torch.equal(own[path], tensor) for path, tensor in kept.items() if not path.startswith(("head.", "pair_head.")))
    assert own["head.weight"].shape == (outputs, 32)
    words = weft.load(start).tokenizer.to_json()
    assert getattr(made.data.tokenizer, "tokens", made.data.tokenizer).to_json() == words
    made.trainer.fit()
    found = weft.evaluate(tmp_path / "run")
    assert "f1" in found.metrics and found.findings is not None
    if name == "bert/tags":
        assert weft.load(tmp_path / "run").tokenizer.classes == ["B-what", "B-who", "O"]
