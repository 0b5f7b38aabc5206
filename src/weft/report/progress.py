"""What a training run says while it runs: a live line on a terminal, plain lines elsewhere.

It looks at losses only when the log has read them, so it never makes the device wait; step, speed and time left are told from the
clock, several times a second from the first step on.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import sys
import time
from collections import deque

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


RECENT = 10.0
"""Seconds over which the speed of a live line is taken."""


def unit(trainer: Trainer) -> str:
    return "tokens/s" if trainer.tokens > 1 else "examples/s"


class Progress(Hook):
    name = "progress"

    def __init__(self, live: bool | None = None):
        self.live = live
        self.display: Display | None = None
        self.curve: list[tuple[float, float]] = []
        """The first loss that was logged, by step; every second one is dropped where they become many."""
        self.seen: dict[str, float] = {}
        self.line = ""

    def start(self, trainer: Trainer) -> None:
        self.trainer = trainer
        self.log = next(h for h in trainer.hooks if isinstance(h, Log))
        self.validation = next((h for h in trainer.hooks if isinstance(h, Validation)), None)
        self.first = trainer.step + 1  # the first step warms up, so the pace is taken from those after it
        self.begin = time.perf_counter()
        self.timings = deque([(self.begin, trainer.step, trainer.cursor)])
        self.seen = self.log.latest
        self.display = make_display(self.now, self.live, self.curve)
        if self.display:
            self.display.start()

    def after_step(self, trainer: Trainer) -> None:
        if trainer.step <= self.first:
            self.begin = time.perf_counter()
        self.keep_time(trainer)
        validated = self.validation is not None and self.validation.latest_step == trainer.step
        if self.log.latest is not self.seen or validated:
            if self.log.latest is not self.seen:
                self.remember(trainer.step, self.log.latest)
            self.seen = self.log.latest
            self.line = self.describe(trainer)
            if self.display is None or validated:
                shown = [self.place(trainer), *([] if self.display else [self.line]), *([self.held()] if validated else [])]
                tell("  ".join(shown))
        if self.display:
            self.display.refresh(last=trainer.step == trainer.settings.steps)

    def keep_time(self, trainer: Trainer) -> None:
        """Keep when which step was made, of the last seconds alone, and not from before the first, which warms up."""
        now = time.perf_counter()
        if trainer.step == self.first:
            self.timings = deque([(now, trainer.step, trainer.cursor)])  # the line is drawn by another thread, so there is always one
            return
        if len(self.timings) > 1 and self.timings[-1][0] - self.timings[-2][0] < 0.1:
            self.timings.pop()
        self.timings.append((now, trainer.step, trainer.cursor))
        while len(self.timings) > 2 and now - self.timings[0][0] > RECENT:
            self.timings.popleft()

    def now(self) -> tuple[int, int, str]:
        """Step, steps, and what is known this moment: losses last logged, the speed of the last seconds, time left, the best so far."""
        trainer, (began, step, cursor), (last, made, drawn) = self.trainer, self.timings[0], self.timings[-1]
        losses = [f"{name} {number(value)}" for name, value in self.seen.items() if name.endswith("loss")][:3]
        total, since = trainer.settings.steps, time.perf_counter() - last
        if made == step:
            return made, total, "  ".join([*losses, f"step {made + 1}: {duration(since)} so far"])
        seconds = last - began
        seconds += max(0.0, since - seconds / (made - step))  # a step that takes longer than those before it slows the pace already
        rate = f"{(drawn - cursor) * trainer.tokens / seconds:,.0f} {unit(trainer)}"
        rate += f"  MFU {100 * self.seen['mfu']:.1f} %" if "mfu" in self.seen else ""
        left = max(0.0, seconds / (made - step) * (total - made) - since)
        return made, total, "  ".join([*losses, rate, f"{duration(left)} left"]) + self.best()

    def finish(self, trainer: Trainer) -> None:
        if self.display:
            self.display.stop()

    def remember(self, step: int, numbers: dict[str, float]) -> None:
        """The newest loss, for the curve in a notebook."""
        value = next((value for name, value in numbers.items() if name.endswith("loss")), math.nan)
        if math.isfinite(value):
            if len(self.curve) >= 200:
                del self.curve[1::2]
            self.curve.append((step, value))

    @staticmethod
    def place(trainer: Trainer) -> str:
        total = str(trainer.settings.steps)
        return f"step {trainer.step:{len(total)}}/{total}"

    def describe(self, trainer: Trainer) -> str:
        """Losses, rate and time left, from the numbers last logged."""
        losses = [f"{name} {number(value)}" for name, value in self.seen.items() if name.endswith("loss")][:3]
        rate = f"{self.seen.get('per_second', 0.0):,.0f} {unit(trainer)}"
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
