"""Tasks of `weft evaluate CKPT TASK… --shots K`: asked one after the other, with a table of what came of them."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weft.cli import console
from weft.core import registry
from weft.core.config import Config
from weft.core.errors import ConfigError
from weft.core.units import duration, number
from weft.report.live import make_display

if TYPE_CHECKING:  # what asks a model is imported when one is asked
    from weft.evaluation.evaluate import Evaluation
    from weft.evaluation.fewshot.runner import TaskEvaluation
    from weft.evaluation.words import WordTask
    from weft.runs.load import Loaded

SILENCE = 20.0
"""Seconds between two lines where there is no terminal."""


@dataclass(frozen=True, kw_only=True)
class TaskData(Config):
    path: str = ""
    """Folder of data sets, or the task's own file; empty looks below WEFT_DATA."""
    train: str = ""
    """File of training records, like the task's own, to draw worked examples from; empty draws from the others of its file."""
    vocabulary: int = 30_000
    """Most frequent words that take part in analogies and similarities."""


class Meter:
    """How far a task is: a line drawn in place on a terminal, now and then a line elsewhere."""

    def __init__(self, title: str):
        self.title, self.begin = title, time.perf_counter()
        self.done, self.total = 0, 1
        self.display: Any = make_display(lambda: (self.done, self.total, f"{self.title}  {self.left()}")) if sys.stdout.isatty() else None
        self.shown_at = self.begin

    def __enter__(self) -> Meter:
        if self.display:
            self.display.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.display:
            self.display.stop()

    def __call__(self, done: int, total: int) -> None:
        self.done, self.total, now = done, total, time.perf_counter()
        if not self.display and now - self.shown_at > SILENCE:
            self.shown_at = now
            print(f"{self.title}: {done:,} of {total:,}, {self.left()}", flush=True)

    def left(self) -> str:
        seconds = (time.perf_counter() - self.begin) / self.done * (self.total - self.done) if self.done else 0.0
        return f"{duration(seconds)} left" if self.done else ""


def ask(loaded: Loaded, name: str, options: Any) -> Evaluation:
    """What came of a task, told as a table."""
    task = registry.find("tasks", name)
    if hasattr(task, "measure"):
        return ask_words(loaded, name, task, options)
    from weft.evaluation.fewshot.runner import run_task

    names = ("shots", "examples", "seed", "template", "batch")
    with Meter(name) as meter:
        settings = {setting: getattr(options, setting) for setting in names}
        result = run_task(loaded, name, data=options.data.path, train=options.data.train, progress=meter, **settings)
    print(f"{name}, {result.shots}-shot: {result.examples:,} of {result.data['records']:,} examples in {result.seconds:.1f} s")
    for line in result.problems:
        print(f"data: {line}")
    print(console.table([("metric", "value", "95 % interval", "GPT-3 175B"), *rows(result)]))
    return result


def ask_words(loaded: Loaded, name: str, task: WordTask, options: Any) -> Evaluation:
    """The same of word vectors, which take a file and nothing else."""
    from weft.evaluation.words import run

    if options.shots or options.template or options.data.train or options.examples:
        raise ConfigError(f"{name} is asked of word vectors: --shots, --template, --examples and --data.train are for language models")
    result = run(loaded, name, task, options.data.path, options.data.vocabulary)
    print(f"{name}: {result.examples:,} among the {result.data['words']:,} most frequent words in {result.seconds:.1f} s")
    for line in result.problems:
        print(f"data: {line}")
    print(console.table([result.head, *result.rows]))
    return result


def rows(result: TaskEvaluation) -> list[tuple[str, ...]]:
    """A row for each metric, the task's own with what was published."""
    from weft.evaluation.fewshot.tasks import Published

    published = Published(**result.published) if result.published else None
    found: list[tuple[str, ...]] = []
    for place, (metric, value) in enumerate(result.metrics.items()):
        low, high = result.intervals[metric]
        known = published.at(result.shots) if published and not place else None
        found.append((metric, number(value), f"{number(low)} – {number(high)}", "" if known is None else number(known)))
    return found
