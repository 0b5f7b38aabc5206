"""The quickstart must show what it is for: who has read knows, who has only been asked does not."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any

from weft.benchmarks.record import measurements, write_record
from weft.projects.birthplace.quickstart import Options, Result, quickstart

LEAST, MOST, FITTED = 0.85, 0.05, 0.95
"""Right answers of the pretrained model at least, of the other one at most; and of its own questions that one must answer."""


def check(seeds: list[int], folder: Path, record: Path | None) -> bool:
    """Run it once per seed, say how it went, and whether every seed passed."""
    rows: list[dict[str, Any]] = []
    passed = True
    for seed in seeds:
        begin = time.perf_counter()
        results = {r.name: r for r in quickstart(Options(seed=seed, out=str(folder / f"quickstart-{seed}")), say=lambda _: None)}
        seconds = time.perf_counter() - begin
        read, asked = results["pretrained + finetuned"], results["finetuned only"]
        good = read.accuracy >= LEAST and asked.accuracy <= MOST and (asked.fitted or 0.0) >= FITTED
        passed &= good
        shown = ", ".join(f"{name} {r.accuracy:.3f}" for name, r in results.items())
        print(f"{'ok' if good else 'FAILED':6} {'quickstart':20} seed {seed}: {shown}  {seconds:.0f} s", flush=True)
        rows += [row(r, seed, seconds) for r in results.values()]
    if record:
        found = measurements(rows, ("system",), split={"accuracy": "test", "own_questions": "train"})
        seconds = statistics.median(row["quickstart_seconds"] for row in rows)
        write_record(record / "quickstart.json", found, benchmark="quickstart", command="weft quickstart --seed SEED", seconds=seconds)
    return passed


def row(result: Result, seed: int, seconds: float) -> dict[str, Any]:
    found = {"system": result.name, "seed": seed, "accuracy": result.accuracy, "own_questions": result.fitted}
    return {**found, "examples": len(result.answers), "training_seconds": result.seconds, "quickstart_seconds": seconds}
