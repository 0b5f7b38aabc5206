"""What a training run says while it runs: a live line on a terminal, plain lines elsewhere.

It looks at numbers only when the log has read them, so it never makes the device wait.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import sys
import time

from weft.core.units import duration, number
from weft.report.live import Display, make_display
from weft.training.hooks import Hook, Validation
from weft.training.log import Log
from weft.training.trainer import Trainer

logger = logging.getLogger("weft")


def tell(text: str) -> None:
    """Print; where nobody reads any more, as behind a pipe that was closed, a run goes on in silence rather than end."""
    try:
        print(text, flush=True)
    except OSError as error:
        logger.warning("nothing more can be printed (%s); training goes on", error.strerror)
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class Progress(Hook):
    name = "progress"

    def __init__(self, live: bool | None = None):
        self.display: Display | None = make_display(live)
        self.curve: list[tuple[float, float]] = []
        """The first loss that was logged, by step; every second one is dropped where they become many."""
        self.seen: dict[str, float] = {}
        self.line = ""
        self.drawn = 0.0

    def start(self, trainer: Trainer) -> None:
        self.log = next(h for h in trainer.hooks if isinstance(h, Log))
        self.validation = next((h for h in trainer.hooks if isinstance(h, Validation)), None)
        self.first = trainer.step + 1  # the first step warms up, so the pace is taken from those after it
        self.seen = self.log.latest
        if self.display:
            self.display.start()

    def after_step(self, trainer: Trainer) -> None:
        if trainer.step <= self.first:
            self.begin = time.perf_counter()
        validated = self.validation is not None and self.validation.latest_step == trainer.step
        if self.log.latest is not self.seen or validated:
            if self.log.latest is not self.seen:
                self.remember(trainer.step, self.log.latest)
            self.seen = self.log.latest
            self.line = self.describe(trainer)
            if self.display is None or validated:
                shown = [self.place(trainer), *([] if self.display else [self.line]), *([self.held()] if validated else [])]
                tell("  ".join(shown))
        now = time.perf_counter()
        if self.display and (now - self.drawn > 0.1 or trainer.step == trainer.settings.steps):
            self.drawn = now
            self.display.show(trainer.step, trainer.settings.steps, f"{self.line}{self.best()}", self.curve)

    def finish(self, trainer: Trainer) -> None:
        if self.display:
            self.display.stop()

    def remember(self, step: int, numbers: dict[str, float]) -> None:
        """The newest loss, for the curve in a notebook."""
        value = next((value for name, value in numbers.items() if name.endswith("loss")), math.nan)
        if math.isfinite(value):
            self.curve = [*(self.curve[::2] if len(self.curve) >= 200 else self.curve), (step, value)]

    @staticmethod
    def place(trainer: Trainer) -> str:
        total = str(trainer.settings.steps)
        return f"step {trainer.step:{len(total)}}/{total}"

    def describe(self, trainer: Trainer) -> str:
        """Losses, rate and time left, from the numbers last logged."""
        losses = [f"{name} {number(value)}" for name, value in self.seen.items() if name.endswith("loss")][:3]
        unit = "tokens/s" if trainer.tokens > 1 else "examples/s"
        rate = f"{self.seen.get('per_second', 0.0):,.0f} {unit}"
        rate += f"  MFU {100 * self.seen['mfu']:.1f} %" if "mfu" in self.seen else ""
        made = trainer.step - self.first
        pace = (time.perf_counter() - self.begin) / max(made, 1)
        left = [f"{duration(pace * (trainer.settings.steps - trainer.step))} left"] if made > 0 else []
        return "  ".join([*losses, rate, *left])

    def held(self) -> str:
        """The validation just made."""
        assert self.validation is not None
        value = self.validation.latest[self.validation.metric]
        return f"validation {self.validation.metric} {number(value)}{' (best)' if self.validation.improved else ''}"

    def best(self) -> str:
        found = self.validation
        return f"  best {found.metric} {number(found.best)} at {found.best_step}" if found and found.best is not None else ""
