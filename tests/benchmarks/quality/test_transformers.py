"""Experiments on real data, at toy size: one that learns from another's answers, measured after several numbers of passes."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from tests.contracts.tiny import TRAIN, tiny
from weft import results
from weft.benchmarks.quality import transformers
from weft.benchmarks.quality.transformers import EXPERIMENTS, Experiment, main
from weft.core.config import leaves
from weft.core.registry import RECIPES
from weft.training.checkpoint import checkpoint


def test_every_experiment_names_what_there_is() -> None:
    for experiment in EXPERIMENTS.values():
        assert experiment.recipe in RECIPES
        assert experiment.start in ("", transformers.MINILM, *EXPERIMENTS)
        assert experiment.teacher in ("", *EXPERIMENTS)


def toy(name: str, folder: Path) -> dict[str, object]:
    """What makes the recipe of an experiment small."""
    small = {setting: value for setting, (_, value) in leaves(tiny(name, folder)).items()}
    wanted = ("data.", "model.", *TRAIN)
    return {s: v for s, v in small.items() if s.startswith(wanted) and s != "name"} | {"train.device": "cpu", "train.keep_checkpoints": 3}


def test_distillation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sacrebleu")
    teacher = Experiment("transformer/multi30k", settings=toy("transformer/multi30k", tmp_path))
    student = Experiment("nat/multi30k", settings=toy("nat/multi30k", tmp_path), teacher="teacher", iterations=(1, 2))
    monkeypatch.setattr(transformers, "EXPERIMENTS", {"teacher": teacher, "student": student})
    main(["student", "--out", str(tmp_path / "runs"), "--record", str(tmp_path / "records")])
    sources = (tmp_path / "source").read_text().splitlines()
    answers = (tmp_path / "runs" / "teacher-1-answers.txt").read_text().splitlines()
    assert len(answers) == len(sources)
    assert answers != (tmp_path / "target").read_text().splitlines()
    recipe = json.loads((tmp_path / "runs" / "student-1" / "recipe.json").read_text())
    assert recipe["data"]["target_path"] == str(tmp_path / "runs" / "teacher-1-answers.txt")
    assert recipe["data"]["validation_target_path"] == str(tmp_path / "target")  # measured against people's own translations
    record = results.read(tmp_path / "records" / "transformers-student.json")
    assert record.details["teacher"] == "teacher"
    assert {"bleu", "bleu_1", "bleu_2", "length_accuracy"} <= record.table()[0].keys()
    assert "lines" in capsys.readouterr().out


def test_what_an_experiment_starts_from_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = Experiment("bert/pretrain", settings=toy("bert/pretrain", tmp_path))
    tuned = Experiment("bert/classify", "start", toy("bert/classify", tmp_path))
    small = {name: value for name, value in tuned.settings.items() if not name.startswith("model.")} | {"data.context": 24}
    monkeypatch.setattr(transformers, "EXPERIMENTS", {"start": start, "tuned": dataclasses.replace(tuned, settings=small)})
    places = ["--out", str(tmp_path / "runs"), "--record", str(tmp_path / "records")]
    main(["start", "--change", "train.steps=3", *places])
    main(["tuned", "--label", "short", *places])
    record = results.read(tmp_path / "records" / "transformers-tuned-short.json")
    assert record.details["start_steps"] == 3 and record.details["start"] == "start"
    assert checkpoint.saved_step(tmp_path / "runs" / "start-1") == 3, "it was not trained further"
