from __future__ import annotations

from pathlib import Path

import pytest

from weft import results
from weft.benchmarks.quality import images
from weft.benchmarks.quality.images import EXPERIMENTS, MEASURES, Experiment
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
    """A record says whether it is of the data that report; an experiment without such data measures what is held out."""
    for record in map(results.read, sorted(Path("results").glob("images-*.json"))):
        experiment = EXPERIMENTS.get(str(record.details["experiment"]))
        if experiment and not experiment.report and not experiment.recipe.endswith("/ring"):
            assert "test" not in {measured.split for measured in record.measurements}, record.name
    for line in Path("docs/lab/gan.md").read_text().splitlines():
        assert not ("facades" in line and "test images" in line), line


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
