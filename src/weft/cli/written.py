"""What `weft evaluate` leaves in the folder of a run."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from weft import __version__
from weft.core.untrusted import parse_json, read_json
from weft.evaluation.evaluate import Evaluation
from weft.runs.environment import machine
from weft.runs.load import Loaded
from weft.training.checkpoint import checkpoint, files

SAME = ("recipe", "weft", "data", "examples", "objective")
"""What two records of a checkpoint must agree in for their metrics to stand side by side."""


def default_file(loaded: Loaded, what: str) -> Path:
    """RUN/evaluations/STEP.json, with what it is about where that is not the recipe's own data."""
    path = loaded.path
    # the mean of some checkpoints is no folder, and a model that was converted is a folder without checkpoints
    run = path.parent.parent if path.parent.name == "checkpoints" else path if path.is_dir() else path.parent
    return run / "evaluations" / f"{loaded.path.name}{what}.json"


def describe(loaded: Loaded, result: Evaluation) -> dict[str, Any]:
    """The record of an evaluation."""
    numbers = dataclasses.asdict(dataclasses.replace(result, findings=None))
    del numbers["findings"]
    return {"recipe": loaded.recipe.name, "weft": __version__, "machine": machine(), **numbers}


def with_earlier(record: dict[str, Any], target: Path) -> dict[str, Any]:
    """A record with the other metrics that an earlier one of the very same thing holds, as they may be asked for one by one."""
    try:
        earlier, now = read_json(target, finite=False), parse_json(checkpoint.encode(record), finite=False)
        alike = all(earlier[name] == now[name] for name in SAME)
        return record | {"metrics": earlier["metrics"] | record["metrics"]} if alike else record
    except (OSError, ValueError, TypeError, KeyError):  # none, or not ours
        return record


def write(loaded: Loaded, result: Evaluation, target: Path, extend: bool = False) -> None:
    """The record of an evaluation, and all that the model said beside it. extend: keep the other metrics of an earlier record."""
    record = describe(loaded, result)
    files.deliver(target, checkpoint.encode(with_earlier(record, target) if extend else record))
    print(f"written to {target}")
    if result.findings:
        said = target.with_name(f"{target.stem}-predictions{result.findings.suffix}")
        files.deliver(said, result.findings.content.encode())
        print(f"predictions written to {said}")
