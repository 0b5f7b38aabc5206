"""TensorBoard: event files in the run's folder, so that `tensorboard --logdir runs` names each run as its folder is named."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from weft.training.loggers.base import Logger, append, close


class TensorBoard(Logger):
    """The logger that is on by default; without TensorBoard's format in the environment it writes nothing."""

    def __init__(self) -> None:
        self.events: Any = None

    def open(self, run: Path, recipe: dict[str, Any], step: int) -> None:
        self.events = None
        with contextlib.suppress(ImportError):
            from weft.training.loggers.events import Events

            self.events = Events(run, step)

    def numbers(self, step: int, values: dict[str, float]) -> None:
        if self.events:
            append(self.events, self.events.scalars(step, values))

    def text(self, step: int, name: str, text: str) -> None:
        if self.events:
            append(self.events, self.events.text(step, name, text))

    def image(self, step: int, name: str, png: bytes) -> None:
        if self.events:
            append(self.events, self.events.image(step, name, png))

    def close(self, ended: bool) -> None:
        if self.events:
            close(self.events)
