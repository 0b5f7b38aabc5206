"""Train recipes on their embedded data and compare each with the number it must reach."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import weft


@dataclass(frozen=True)
class Demo:
    recipe: str
    metric: str
    bound: float
    better: str
    """"min" or "max": whether the metric must be at most or at least the bound."""
    baseline: str
    """What a trivial method reaches."""
    in_ci: bool = True


DEMOS: list[Demo] = []


def run(demo: Demo, folder: Path) -> tuple[bool, float, float]:
    begin = time.perf_counter()
    result = weft.train(weft.recipe(demo.recipe), out=folder / demo.recipe.replace("/", "-"))
    assert result.validation is not None and result.validation.best is not None
    value = result.validation.best if demo.metric == result.recipe.progress.metric else result.validation.latest[demo.metric]
    return (value <= demo.bound if demo.better == "min" else value >= demo.bound), value, time.perf_counter() - begin


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="every demo, not only those of CI")
    parser.add_argument("--only", default="", help="recipes whose name contains this")
    options = parser.parse_args()
    chosen = [d for d in DEMOS if (d.in_ci or options.all) and options.only in d.recipe]
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for demo in chosen:
            passed, value, seconds = run(demo, Path(folder))
            failed += not passed
            sign = "<=" if demo.better == "min" else ">="
            verdict = "ok" if passed else "FAILED"
            print(
                f"{verdict:6} {demo.recipe:22} {demo.metric} {value:.4f} ({sign} {demo.bound}; {demo.baseline})  {seconds:.0f} s",
                flush=True,
            )
    print(json.dumps({"passed": len(chosen) - failed, "failed": failed}))
    print(f"{len(chosen) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
