"""A run in hand: what trains, what it logged, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from weft.data.base import Data
from weft.recipes.base import Recipe
from weft.runs import record
from weft.runs.load import Loaded, load
from weft.training.hooks import Signals, Validation
from weft.training.trainer import Trainer


@dataclass(repr=False)
class Run:
    """A trainer and what it was made of; once it has ended, its history, its curves and its model."""

    folder: Path
    recipe: Recipe
    data: Data
    trainer: Trainer
    signals: Signals
    size: int
    """Parameters of the whole model, of which this process may hold a part."""
    cost: dict[str, Any] = field(default_factory=dict)
    """FLOPs, MFU and energy, once it has ended."""
    samples: list[Any] = field(default_factory=list)
    """What the model wrote or drew at the end (`weft.report.samples.Sample`)."""

    @property
    def validation(self) -> Validation | None:
        return next((h for h in self.trainer.hooks if isinstance(h, Validation)), None)

    @property
    def path(self) -> Path:
        """The run's folder, which `weft.load` and `weft.evaluate` take."""
        return self.folder

    @property
    def log(self) -> record.RunLog:
        """What the folder says of the run by now."""
        return record.read(self.folder)

    @property
    def history(self) -> dict[str, np.ndarray]:
        """Everything that was logged, as columns; `pandas.DataFrame(run.history)` makes a table of it."""
        return self.log.history

    def plot(self, *names: str) -> Any:
        """The curves of the named numbers, such as "loss" or "lr", as a figure of matplotlib."""
        return self.log.plot(*names)

    @cached_property
    def model(self) -> Loaded:
        """The trained model at its best validation, or else at its last step, ready to be used: `run.model.generate("Once")`."""
        return load(self.folder)

    def __repr__(self) -> str:
        return f"Run({self.log.summary()})"

    def _repr_html_(self) -> str:
        return self.log._repr_html_()
