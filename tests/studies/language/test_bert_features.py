"""Features of a frozen model: they are its layers, it stays as it was, and every way to use it is compared."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import weft
from tests.contracts.tiny import tags, tiny
from weft.core.errors import CapabilityError, ConfigError
from weft.models.language.bert import BERTConfig
from weft.studies.language.bert_features import LAYERS, OnFeatures, Settings, prepare, study


def test_features_are_the_layers_side_by_side_and_padding_is_not_read() -> None:
    torch.manual_seed(0)
    bert = BERTConfig(vocabulary=30, context=8, layers=5, heads=2, width=8, init_std=0.3).build().eval()
    ids, lengths = torch.randint(5, 30, (2, 8)), torch.tensor([8, 3])
    states = bert.layers_of(ids, lengths=lengths)
    assert len(states) == 6
    assert torch.equal(states[-1], bert.hidden(ids, lengths=lengths))
    assert [OnFeatures(bert, layers, 3).lstm.input_size for layers in LAYERS.values()] == [8, 8, 32, 48]
    model = OnFeatures(bert, LAYERS["last four layers"], 3)
    assert {name.partition(".")[0] for name, _ in model.named_parameters()} == {"lstm", "head"}
    logits = model.tag(ids, lengths=lengths)
    assert logits.shape == (2, 8, 3)
    torch.testing.assert_close(model.tag(ids[1:, :3], lengths=lengths[1:])[0], logits[1, :3], atol=1e-5, rtol=1e-5)


def settings(folder: Path, **more: object) -> Settings:
    tags(folder)
    small = {"sentences": 30, "held_out": 20, "pretraining": 2, "epochs": 1, "context": 16}
    return Settings(path=str(folder / "tags.txt"), cut="", **{**small, **more})  # type: ignore[arg-type]


def test_every_way_is_compared_on_words_that_were_not_learned_from(tmp_path: Path) -> None:
    finding = study(settings(tmp_path))
    assert [row[0] for row in finding.rows] == ["finetuned", "not pretrained", *LAYERS]
    assert finding.rows[0][2] == "+0.00"
    assert all(0 <= float(row[1]) <= 100 for row in finding.rows)
    finding.write(tmp_path / "page.html")
    assert "last four layers" in (tmp_path / "page.html").read_text()


def test_a_model_can_be_brought(tmp_path: Path) -> None:
    weft.train(tiny("bert/pairs", tmp_path, {"train.steps": 1, "train.eval_every": 0, "train.device": "cpu"}), tmp_path / "run")
    task = prepare(settings(tmp_path, init=str(tmp_path / "run")))
    assert task.bert.config.layers == 1
    assert task.tokenizer.tokens.to_json() == weft.load(tmp_path / "run").tokenizer.to_json()
    weft.train(tiny("gpt/text", tmp_path, {"train.steps": 1, "train.eval_every": 0, "train.device": "cpu"}), tmp_path / "gpt")
    with pytest.raises(CapabilityError, match="GPT has no layers of BERT"):
        prepare(settings(tmp_path, init=str(tmp_path / "gpt")))
    with pytest.raises(ConfigError, match="must leave some of the 120"):
        prepare(settings(tmp_path, held_out=90))
