"""`weft bench elmo`: every tagger learns, what is done stays done, and the record has the trivial answers beside the scores."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.benchmarks.quality import elmo
from weft.data.annotated.tagged import TaggedConfig
from weft.results import read

WORDS = {"the": "DT", "king": "NN", "queen": "NN", "sees": "VB", "hears": "VB", "a": "DT", "river": "NN", "old": "JJ"}


def test_taggers_are_compared_and_not_trained_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nouns = ["king", "queen", "river"]
    lines = [f"the old {a} {verb} a {b}" for a in nouns for b in nouns for verb in ("sees", "hears")]
    (tmp_path / "novel.txt").write_text("\n\n".join(lines * 3))
    (tmp_path / "tags.tsv").write_text("\n".join("".join(f"{word}\t{WORDS[word]}\n" for word in line.split()) for line in lines))
    monkeypatch.setattr(elmo, "BROWN", TaggedConfig(path=str(tmp_path / "tags.tsv")))
    small = {"data.path": str(tmp_path / "novel.txt"), "model.width": 16, "model.projection": 8, "data.validation": 0.0}
    monkeypatch.setattr(elmo, "PRETRAIN", {**small, "train.eval_every": 0})
    monkeypatch.setattr(elmo, "VECTORS", {"data.path": small["data.path"], "data.validation": 0.0, "train.steps": 2, "train.eval_every": 0})
    asked = ["--out", str(tmp_path / "out"), "--sentences", "10", "--held-out", "3", "5", "--steps", "3", "--pretraining", "2"]
    elmo.main([*asked, "--taggers", "ELMo, all layers", "word2vec"])
    trained: list[str] = []
    monkeypatch.setattr(
        elmo, "tagged", lambda name, *_: trained.append(name) or {"tagger": name, "seed": 1, "accuracy": 0.5, "cpu_seconds": 1}
    )
    elmo.main([*asked, "--record", str(tmp_path / "elmo.json")])
    assert trained == ["ELMo, last layer", "ELMo, words alone", "random vectors", "own vectors"]
    accuracy = [one for one in read(tmp_path / "elmo.json").measurements if one.metric == "accuracy"]
    assert [one.of["tagger"] for one in accuracy] == list(elmo.TAGGERS)
    assert [one.name for one in accuracy[0].baselines] == ["commonest tag", "most frequent tag of each word"]
