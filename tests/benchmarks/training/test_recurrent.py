from __future__ import annotations

import pytest
import torch

from weft.benchmarks.training import recurrent


def test_every_contender_learns_and_decodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recurrent, "SHAPES", {8: 2, 16: 2})
    for what in ("train", "decode"):
        for cell, kinds in (("gru", 4), ("peephole", 2)):
            task = (what, cell, 8, "fp32")
            names = recurrent.contenders(task, gpu=False)
            assert len(names) == kinds + 2 * (what == "train") and names[0] == recurrent.WEFT
            for kind in names:
                recurrent.made(kind, task, torch.device("cpu"))()
    assert recurrent.contenders(("train", "lstm", 16, "bf16"), gpu=True) == [recurrent.WEFT, recurrent.KERNEL, recurrent.PYTORCH]


def test_ratios_are_those_of_turns() -> None:
    taken = {recurrent.WEFT: [1.0, 2.0, 10.0], recurrent.KEPT: [3.0, 6.0, 20.0]}
    rows = recurrent.rows_of(("train", "lstm", 200, "fp32"), taken, "busy_")
    assert [row["busy_ms"] for row in rows] == [2.0, 6.0]
    assert rows[0]["times_busy_pytorch_memory_kept"] == pytest.approx(3.0)
    assert "times_busy_pytorch_memory_kept 3.00" in recurrent.said(("train", "lstm", 200, "fp32"), rows, "busy_")
