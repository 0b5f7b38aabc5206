"""A few hundred of the cases of reliability/hostile.py, which has thousands: hostile files end in one sentence."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "reliability"))
sandbox, hostile, makers = (pytest.importorskip(name) for name in ("sandbox", "hostile", "specimens"))
pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs Linux, whose processes can be watched")

CASES = 3
NEEDED = {"images": ("PIL",), "models": ("gguf",), "weights": ("h5py",), "sounds": ("soundfile",), "given": ("pyarrow",)}
"""Packages that a group's files are made with."""


@pytest.mark.parametrize("group", makers.MAKERS)
def test_hostile_files_end_in_one_sentence(group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for needed in (*NEEDED.get(group, ()), "tokenizers"):
        pytest.importorskip(needed)
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")
    monkeypatch.setattr(hostile, "KEEP", tmp_path / "kept")
    torch.set_num_threads(1)
    (tmp_path / "specimens").mkdir()
    for specimen in makers.MAKERS[group](tmp_path / "specimens"):
        for seed in range(CASES):
            done, outcome = hostile.attempt(specimen, str(seed), tmp_path / "work")
            assert not outcome.trouble, f"{specimen.name}, case {seed} ({done}): {outcome.trouble}: {outcome.said[-2000:]}"
