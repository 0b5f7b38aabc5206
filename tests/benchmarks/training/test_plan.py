"""The comparison of plan and step runs anywhere on a tiny model."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft import results
from weft.benchmarks.record import measurements, write_record
from weft.benchmarks.training import plan, training
from weft.core.errors import WeftError
from weft.results import Hardware


def test_a_tiny_model_is_planned_and_measured(tmp_path: Path) -> None:
    plan.main(["--models", "tiny", "--steps", "1", "--device", "cpu", "--record", str(tmp_path)])
    record = results.read(tmp_path / "plan.json")
    (row,) = record.table()
    assert record.benchmark == "plan"
    assert row["measured_seconds"] > 0 and row["planned_seconds"] > 0 and row["planned_bytes"] > 0


GPU = Hardware(cpu=None, threads=None, gpu="a GPU", gpus=1)


def steps(path: Path, batch: int) -> None:
    """A record of `weft bench training` with steps of the tiny model."""
    variant = {"variant": "default", "ms": 500.0, "gib": 2.0, "execution": []}
    found = measurements(training.flat([{"size": "tiny", "batch": batch, "variants": [variant]}]), training.OF)
    write_record(path, found, command="weft bench training", hardware=GPU, versions={"torch": "2"}, date="2026-01-01")


def test_a_step_that_was_measured_before_serves_as_well(tmp_path: Path) -> None:
    record = tmp_path / "training.json"
    steps(record, plan.BATCHES["tiny"])
    plan.main(["--models", "tiny", "--measured", str(record), "--device", "cpu", "--record", str(tmp_path)])
    found = results.read(tmp_path / "plan.json")
    assert found.table()[0]["measured_seconds"] == 0.5 and found.table()[0]["measured_bytes"] == 2 * 2**30
    assert (found.hardware, found.versions["torch"], found.date) == (GPU, "2", "2026-01-01")
    for spoil in (lambda: record.write_text("{}"), lambda: steps(record, 1)):
        spoil()
        with pytest.raises(WeftError, match="tiny"):
            plan.main(["--models", "tiny", "--measured", str(record)])


def test_the_plan_keeps_to_its_bars_beside_a_step_that_was_measured() -> None:
    record = Path(__file__).parents[3] / "results" / "training_gpu.json"
    row = plan.compare("gpt2", plan.BATCHES["gpt2"], 1, "h200", str(record))
    assert row["kept"], f"memory {row['memory_off']:+.3f}, time {row['step_off']:+.3f}"
    assert abs(row["memory_off"]) < 0.03
