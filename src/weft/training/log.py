"""The record of a run: metrics.jsonl, and what else logs it, each step once however often the run was interrupted."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from weft.core.errors import CheckpointError
from weft.core.untrusted import checked, parse_json, read_bytes
from weft.training.checkpoint import files
from weft.training.hooks import Hook, State, Validation
from weft.training.loggers.base import Logger, append, close

if TYPE_CHECKING:
    from weft.training.trainer import Trainer

LARGEST_LOG = 1 << 30
"""Bytes of metrics.jsonl."""
log = logging.getLogger("weft")


class Log(Hook):
    """metrics.jsonl and the loggers: a line every few steps and at every validation, each step once."""

    name = "log"

    def __init__(self, run: Path, every: int, loggers: Sequence[Logger] = (), share: float = 0.0, recipe: dict[str, Any] | None = None):
        """`share`: of what the devices can do in a second, what an example takes; 0 where it is not known."""
        self.run, self.every, self.loggers, self.share, self.recipe = run, every, list(loggers), share, recipe or {}
        self.lines: files.Appender | None = None
        self.opened: list[Logger] = []
        self.ended = False
        self.latest: dict[str, float] = {}
        self.seconds = 0.0
        self.logged_at = 0.0

    def start(self, trainer: Trainer) -> None:
        if trainer.team.first:
            self.open(trainer.step)
        self.logged_at = time.perf_counter()
        self.logged_cursor = trainer.cursor

    def open(self, step: int) -> None:
        path = self.run / "metrics.jsonl"
        with files.writing(self.run):
            drop_after(path, step)
        self.lines = files.Appender(path)
        for logger in self.loggers:
            logger.open(self.run, self.recipe, step)
            self.opened.append(logger)

    def after_step(self, trainer: Trainer) -> None:
        validation = next((h for h in trainer.hooks if isinstance(h, Validation) and h.latest_step == trainer.step), None)
        due = trainer.step % self.every == 0 or trainer.step in (1, trainer.settings.steps)
        if not due and validation is None:
            return
        line: dict[str, Any] = {"step": trainer.step, "examples": trainer.cursor}
        if due:
            line["train"] = self.training(trainer)
        if validation is not None:
            line["validation"] = validation.latest
        self.write(line, trainer)

    def training(self, trainer: Trainer) -> dict[str, float]:
        numbers = trainer.means.read(trainer.team.all_reduce)
        trainer.means.clear()
        for turn, updater in trainer.updaters.items():
            prefix = f"{turn}_" if turn else ""
            numbers |= {f"{prefix}lr": updater.lr, f"{prefix}grad_norm": float(updater.norm)}
            if float(updater.refused):
                numbers[f"{prefix}refused_updates"] = float(updater.refused)
        now = time.perf_counter()
        rate = (trainer.cursor - self.logged_cursor) / max(now - self.logged_at, 1e-9)
        self.seconds += now - self.logged_at
        self.logged_at, self.logged_cursor = now, trainer.cursor
        self.latest = numbers | {"per_second": rate * trainer.tokens} | ({"mfu": rate * self.share} if self.share else {})
        return self.latest

    def write(self, line: dict[str, Any], trainer: Trainer) -> None:
        line["seconds"] = round(self.seconds, 3)
        if self.lines:
            self.look(self.lines)
            append(self.lines, (json.dumps(strict(line), allow_nan=False) + "\n").encode())
        values = {f"{part}/{name}": value for part in ("train", "validation") for name, value in line.get(part, {}).items()}
        self.tell(lambda logger: logger.numbers(trainer.step, values))

    def look(self, file: files.Appender) -> None:
        """Notice that somebody has deleted the run, or its log, while it was trained."""
        if file.gone():
            if not self.run.is_dir():
                raise CheckpointError(f"{self.run}: was deleted while it was trained, and all that was saved; train it again")
            log.warning("%s was deleted while it was written; its lines so far are lost, and new ones begin another", file.path)
            file.begin_again()

    def tell(self, what: Callable[[Logger], None]) -> None:
        """Give something to every logger; one that fails is left out from then on, and training goes on."""
        for logger in list(self.opened):
            try:
                what(logger)
            except Exception as error:  # of a service or a package that is not ours
                self.opened.remove(logger)
                said = " ".join(f"{type(error).__name__}: {error}".split())
                log.warning("%s: %s; training goes on without it", type(logger).__name__, said)

    def sync(self) -> None:
        """Let the log last through a power cut as the checkpoint of its step will."""
        with contextlib.suppress(OSError):
            if self.lines:
                self.lines.sync()

    def complete(self, trainer: Trainer) -> None:
        self.ended = True

    def finish(self, trainer: Trainer) -> None:
        if self.lines:
            close(self.lines)
        self.tell(lambda logger: logger.close(self.ended))
        self.opened.clear()

    def state(self) -> State:
        return {}, {"seconds": self.seconds}

    def load_state(self, tensors: Mapping[str, Tensor], plain: dict[str, Any]) -> None:
        self.seconds = checked(plain, {"seconds": float | int} if plain else {}).get("seconds", 0.0)


def strict(value: Any) -> Any:
    """What JSON can say: a number that is not finite becomes null."""
    if isinstance(value, dict):
        return {name: strict(part) for name, part in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def drop_after(path: Path, step: int) -> None:
    """Remove log lines after a step, and a last line that was cut off: the continued run writes them again."""
    if not path.exists():
        return
    kept, content = [], read_bytes(path, LARGEST_LOG)
    for line in content.splitlines(keepends=True):
        try:
            if line.endswith(b"\n") and parse_json(line)["step"] <= step:
                kept.append(line)
        except (ValueError, KeyError, TypeError):
            continue
    if b"".join(kept) != content:
        files.replace(path, b"".join(kept))
