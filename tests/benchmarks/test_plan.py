"""The comparison of plan and step runs anywhere on a tiny model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from weft.benchmarks import plan
from weft.core.errors import WeftError


def test_a_tiny_model_is_planned_and_measured(tmp_path: Path) -> None:
    plan.main(["--models", "tiny", "--steps", "1", "--device", "cpu", "--record", str(tmp_path)])
    record = json.loads((tmp_path / "plan.json").read_text())
    (row,) = record["rows"]
    assert record["name"] == "plan"
    assert row["measured_seconds"] > 0 and row["planned_seconds"] > 0 and row["planned_bytes"] > 0


def test_a_step_that_was_measured_before_serves_as_well(tmp_path: Path) -> None:
    variant = {"ms": 500.0, "gib": 2.0, "execution": []}
    facts = {"hardware": "a GPU", "versions": {"torch": "2"}, "date": "2026-01-01"}
    record = tmp_path / "training.json"
    record.write_text(json.dumps({**facts, "rows": [{"size": "tiny", "batch": plan.BATCHES["tiny"], "variants": [variant]}]}))
    plan.main(["--models", "tiny", "--measured", str(record), "--device", "cpu", "--record", str(tmp_path)])
    found = json.loads((tmp_path / "plan.json").read_text())
    assert found["rows"][0]["measured_seconds"] == 0.5 and found["rows"][0]["measured_bytes"] == 2 * 2**30
    assert facts.items() <= found.items()
    for line in ("{}", json.dumps({"rows": [{"size": "tiny", "batch": 1, "variants": [variant]}]})):
        record.write_text(line)
        with pytest.raises(WeftError, match="tiny"):
            plan.main(["--models", "tiny", "--measured", str(record)])


def test_the_plan_keeps_to_its_bars_beside_a_step_that_was_measured() -> None:
    record = Path(__file__).parents[2] / "results" / "training_gpu.json"
    row = plan.compare("gpt2", plan.BATCHES["gpt2"], 1, "h200", str(record))
    assert row["kept"], f"memory {row['memory_off']:+.3f}, time {row['step_off']:+.3f}"
    assert abs(row["memory_off"]) < 0.03
