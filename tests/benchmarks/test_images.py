from __future__ import annotations

import json
from pathlib import Path

import pytest

from weft import results
from weft.benchmarks import images
from weft.benchmarks.images import EXPERIMENTS, MEASURES, Experiment
from weft.core import registry
from weft.runs.load import Loaded

pytest.importorskip("sklearn")
SMALL = {"train.steps": 4, "train.eval_every": 2, "model.layers": 1, "model.width": 6, "train.device": "cpu"}


def size(loaded: Loaded, data: dict[str, object]) -> dict[str, float]:
    return {"settings": float(len(data)), "width": float(loaded.recipe.model.width)}  # type: ignore[attr-defined]


def test_an_experiment_is_trained_measured_drawn_and_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = Experiment("pixelcnn/digits", settings=SMALL, report={"validation": 0.5}, measures=("size",), beside=images.beside("loss", 81))
    monkeypatch.setitem(EXPERIMENTS, "small", row)
    monkeypatch.setitem(MEASURES, "size", f"{__name__}:size")
    images.main(["small", "--seeds", "1", "2", "--report", "--out", str(tmp_path / "runs"), "--record", str(tmp_path / "results")])
    record = results.read(tmp_path / "results" / "images-small.json")
    assert record.seeds == (1, 2)
    first, loss = record.table()[0], record.find("loss")
    assert loss and loss.examples == 898 and loss.split == "test", "measured on the data that report"
    assert loss.target == 81 and loss.unit == "nats" and loss.better == "lower"
    assert record.changed == SMALL and record.recipe == "pixelcnn/digits"
    assert first["width"] == 6
    assert first["settings"] == 1
    assert first["loss"] > 0
    assert first["train_seconds"] > 0
    assert (tmp_path / "runs" / "small-1" / "samples.png").read_bytes().startswith(b"\x89PNG")
    assert results.compared(record.measurements) == "at most 81 nats"


def test_what_is_held_out_from_training_is_not_called_test_data() -> None:
    """An experiment without data that report measures what is held out, and its record and the table say so."""
    held = [name for name, experiment in EXPERIMENTS.items() if not experiment.report and not experiment.recipe.endswith("/ring")]
    assert "pix2pix-facades" in held
    for name in held:
        splits = {measured["split"] for measured in json.loads(Path(f"results/images-{name}.json").read_text())["measurements"]}
        assert splits <= {"validation", None}, name
        lines = [line for line in Path("docs/gan.md").read_text().splitlines() if line.startswith(f"| {name} ")]
        assert lines and not any("test images" in line for line in lines), name


def test_every_experiment_names_a_recipe_its_start_and_its_measures() -> None:
    for name, experiment in EXPERIMENTS.items():
        assert experiment.recipe in registry.RECIPES, name
        assert experiment.start in ("", *EXPERIMENTS), name
        for measure in experiment.measures:
            needed = measure.partition("=")[2]
            assert callable(images.find(measure)) if measure in MEASURES else needed in ("", *EXPERIMENTS) or needed.isdecimal(), name


def test_what_a_time_limit_leaves_is_measured_and_can_be_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EXPERIMENTS, "small", Experiment("pixelcnn/digits", settings=SMALL))
    rows = [images.measured("small", 1, tmp_path, {}, False, seconds) for seconds in (1e-9, 0.0)]
    assert [row["step"] for row in rows] == [1, 4]
    assert all(row["loss"] > 0 for row in rows)
