"""lm-evaluation-harness hears the same from a model in its own process and over HTTP, where the harness is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.benchmarks.inference.serving import write_model
from weft.benchmarks.quality import harness


def test_replies_are_numbers_or_texts() -> None:
    assert [harness.number(reply) for reply in ([["-1.5", "False"]], [(-2.0, True)], ["abc"], "")] == [-1.5, -2.0, "abc", ""]


def test_in_process_and_over_http_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("lm_eval", "tenacity", "fastapi"):
        pytest.importorskip(package, reason=f"{package} is not installed; pip install 'lm-eval[api]'")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    write_model(tmp_path / "small", harness.SMALL)
    rows = {row["task"]: row for row in harness.compare(tmp_path / "small")}
    assert all(row["largest_difference"] <= harness.TOLERANCE and row["same_texts"] for row in rows.values())
    assert (rows["weft_choice"]["numbers"], rows["weft_whole_text"]["numbers"], rows["weft_writing"]["texts"]) == (12, 4, 4)
