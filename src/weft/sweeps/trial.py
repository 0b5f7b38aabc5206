"""One trial of a sweep: a run of its own, trained as far as it is asked for and resumed exactly where it goes on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from weft.api import fit
from weft.core import registry
from weft.core.errors import CapabilityError, ConfigError, DataError, NonFiniteError
from weft.recipes.base import load as load_recipe
from weft.runs import record
from weft.runs.assemble import assemble
from weft.training.hooks import Hook
from weft.training.parallel import processes
from weft.training.trainer import Trainer

LOSES = (ConfigError, DataError, CapabilityError, NonFiniteError)
"""Errors that are the trial's own: the sweep goes on without it. Others, such as a full disk, end the sweep, which can be continued."""


@dataclass
class Trial:
    """Settings that were tried, and what they reached."""

    settings: dict[str, Any]
    path: Path
    steps: int = 0
    """Made so far."""
    value: float | None = None
    """The best of the recipe's measure of progress on the validation data, so far."""
    best_step: int = 0
    seconds: float = 0.0
    error: str = ""
    """Why it has no value."""


@dataclass(frozen=True)
class Task:
    """A trial and how far to train it, as one process tells it to another."""

    recipe: dict[str, Any]
    path: Path
    steps: int
    init: str | None
    threads: int
    """0 for as many as the process has."""


@dataclass(frozen=True)
class Outcome:
    value: float | None
    best_step: int = 0
    seconds: float = 0.0
    error: str = ""
    signal: int = 0
    """What interrupted it; the same sweep again goes on."""


class Pause(Hook):
    """Ends a run after a step, as if it was interrupted there."""

    name = "pause"

    def __init__(self, step: int):
        self.step = step

    def after_step(self, trainer: Trainer) -> None:
        if self.step <= trainer.step < trainer.settings.steps:
            trainer.stop_reason = f"paused after step {trainer.step}"


def advance(task: Task) -> Outcome:
    """Train a trial to the task's step, from where it is."""
    registry.load_families()
    threads = torch.get_num_threads()
    torch.set_num_threads(task.threads or threads)
    try:
        return train(task)
    except LOSES as error:
        return Outcome(None, error=" ".join(str(error).split()))
    except (MemoryError, RuntimeError) as error:
        if "memory" not in str(error) and not isinstance(error, MemoryError):
            raise
        return Outcome(None, error="there is not enough memory for it")
    finally:
        torch.set_num_threads(threads)


def train(task: Task) -> Outcome:
    recipe = load_recipe(task.recipe)
    with processes.joined(recipe.parallel, recipe.train) as team:
        run = assemble(recipe, task.path, task.init, [Pause(task.steps)], team)
        if run.trainer.step < task.steps:
            fit(run) if task.steps >= recipe.train.steps else run.trainer.fit()
    return outcome(record.read(task.path), task.steps, run.signals.received or 0)


def outcome(run: record.RunLog, steps: int, signal: int = 0) -> Outcome:
    """What a run had reached by a step."""
    points = [point for point in run.points("validation", run.metric) if point[0] <= steps]
    if not points:
        return Outcome(None, error=f"no validation reported {run.metric} as a finite number", signal=signal)
    step, value = (min if run.goal == "min" else max)(points, key=lambda point: point[1])
    return Outcome(value, int(step), run.seconds, signal=signal)
