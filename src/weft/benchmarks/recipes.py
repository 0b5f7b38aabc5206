"""Trains recipes with several seeds and records what they reach.

Run: python -m weft bench recipes gan/digits vae/digits --seeds 1 2 3 [--record results/recipes.json]
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from weft.recipes.base import recipe
from weft.run import machine, train


def measure(name: str, seeds: list[int], changes: dict[str, Any]) -> dict[str, Any]:
    """One record: the best validation of each seed, its mean and spread, and the seconds a run takes."""
    values, seconds, metric = [], [], ""
    for seed in seeds:
        with tempfile.TemporaryDirectory() as folder:
            begin = time.perf_counter()
            run = train(recipe(name, {**changes, "train.seed": seed}), out=Path(folder) / "run")
            seconds.append(time.perf_counter() - begin)
        assert run.validation is not None and run.validation.best is not None
        metric = run.recipe.progress.metric
        values.append(run.validation.best)
        print(f"{name} seed {seed}: {metric} {values[-1]:.4f} in {seconds[-1]:.0f} s", flush=True)
    flags = "".join(f" --{key} {value}" for key, value in changes.items())
    return {
        "recipe": name,
        "command": f"weft train {name}{flags}",
        "metric": metric,
        "value": statistics.fmean(values),
        "spread": statistics.stdev(values) if len(values) > 1 else 0.0,
        "values": values,
        "seeds": seeds,
        "seconds": statistics.median(seconds),
        "hardware": machine(),
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
        "date": datetime.date.today().isoformat(),
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", nargs="+")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--set", nargs="*", default=[], help="changes as name=value")
    parser.add_argument("--record", default="", help="JSON file to add the records to")
    options = parser.parse_args(arguments)
    changes = dict(change.split("=", 1) for change in options.set)
    for name in options.recipes:
        record = measure(name, options.seeds, changes)
        if options.record:
            path = Path(options.record)
            old = json.loads(path.read_text()) if path.exists() else []
            path.write_text(json.dumps([r for r in old if r["recipe"] != name] + [record], indent=2) + "\n")


if __name__ == "__main__":
    main()
