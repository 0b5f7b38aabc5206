"""What takes a run's numbers, samples and files besides metrics.jsonl. One that fails never ends a run."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from weft.training.checkpoint import checkpoint, files

log = logging.getLogger("weft")
IDENTITIES = "loggers.json"
"""The file of a run's folder that says under which name each logger knows the run, so that it goes on there."""


class Logger:
    """Made when a run is put together, where it refuses what is not installed; opened at each start of the run and closed at its end."""

    def open(self, run: Path, recipe: dict[str, Any], step: int) -> None:
        """The run in this folder starts, or goes on after this step."""

    def numbers(self, step: int, values: dict[str, float]) -> None:
        """A line of the log: "train/loss", "validation/loss", …"""

    def text(self, step: int, name: str, text: str) -> None: ...

    def image(self, step: int, name: str, png: bytes) -> None: ...

    def page(self, name: str, path: Path) -> None:
        """An HTML page, such as the run's report."""

    def close(self, ended: bool) -> None:
        """The run stops; `ended` unless by an error."""


def run_name(run: Path) -> str:
    """The name of a run: its folder, below the folder `runs` where it lies in one."""
    parts = run.absolute().parts
    return "/".join(parts[parts.index("runs") + 1 :] if "runs" in parts[:-1] else parts[-1:])


def identity(run: Path, logger: str) -> str:
    """Under which name a logger knows a run; empty at its first start."""
    return str(identities(run).get(logger, ""))


def remember(run: Path, logger: str, name: str) -> None:
    files.replace(run / IDENTITIES, checkpoint.encode(identities(run) | {logger: name}))


def identities(run: Path) -> dict[str, Any]:
    try:
        found = json.loads((run / IDENTITIES).read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def append(file: files.Appender, data: bytes) -> None:
    """Write a record; one that cannot be written now is kept for later, with a warning."""
    failing = file.failing
    try:
        file.append(data)
    except OSError as error:
        if not failing:
            log.warning("%s cannot be written (%s); training goes on and the lines are kept for later", file.path, error.strerror)


def close(file: files.Appender) -> None:
    try:
        file.close()
    except OSError as error:
        log.warning("%s: its last lines are lost (%s)", file.path, error.strerror)
