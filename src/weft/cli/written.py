"""What `weft evaluate` leaves in the folder of a run."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from weft import __version__
from weft.evaluation.evaluate import Evaluation
from weft.run import Loaded, machine
from weft.training import checkpoint, files


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


def write(loaded: Loaded, result: Evaluation, target: Path) -> None:
    """The record of an evaluation, and all that the model said beside it."""
    files.deliver(target, checkpoint.encode(describe(loaded, result)))
    print(f"written to {target}")
    if result.findings:
        said = target.with_name(f"{target.stem}-predictions{result.findings.suffix}")
        files.deliver(said, result.findings.content.encode())
        print(f"predictions written to {said}")
