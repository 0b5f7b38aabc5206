"""The comparison of plan and step runs anywhere on a tiny model."""

from __future__ import annotations

import json
from pathlib import Path

from weft.benchmarks import plan


def test_a_tiny_model_is_planned_and_measured(tmp_path: Path) -> None:
    plan.main(["--models", "tiny", "--steps", "1", "--device", "cpu", "--record", str(tmp_path)])
    record = json.loads((tmp_path / "plan.json").read_text())
    (row,) = record["rows"]
    assert record["name"] == "plan"
    assert row["measured_seconds"] > 0 and row["planned_seconds"] > 0 and row["planned_bytes"] > 0
