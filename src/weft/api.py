"""What trains a recipe in a folder that can be continued, and writes its report: `weft.train`."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from weft.planning import cost
from weft.recipes.base import Recipe
from weft.recipes.base import recipe as find_recipe
from weft.report import html, samples
from weft.report.progress import Progress
from weft.runs import record
from weft.runs.assemble import assemble
from weft.runs.load import load
from weft.runs.run import Run
from weft.training.checkpoint import checkpoint, files
from weft.training.hooks import Hook
from weft.training.log import Log
from weft.training.loggers.base import Logger
from weft.training.parallel import processes
from weft.training.trainer import Trainer

log = logging.getLogger("weft")


def train(
    recipe: Recipe | str,
    out: str | Path | None = None,
    init: str | None = None,
    extra: Sequence[Hook] = (),
    progress: bool = True,
) -> Run:
    """Train a recipe, or the one of a name, in a folder; the same call again continues where it stopped.

    What comes back has the run's `history`, `plot()`, `samples` and `model`. init: a run or checkpoint to start from. extra: further
    hooks. progress: show how it goes, in place on a terminal and in a notebook, else line by line.
    """
    recipe = find_recipe(recipe) if isinstance(recipe, str) else recipe
    threads = torch.get_num_threads()  # a run that goes on takes as many as it began with
    try:
        with processes.joined(recipe.parallel, recipe.train) as team:
            hooks = [*extra, Progress()] if progress else extra
            run = assemble(recipe, Path(out) if out else default_folder(recipe), init, hooks, team)
            fit(run)
    finally:
        torch.set_num_threads(threads)
    return run


def default_folder(recipe: Recipe) -> Path:
    return Path("runs") / (recipe.name.replace("/", "-") or "unnamed")


def fit(run: Run) -> None:
    """Train to the end and write the run's report, unless a signal asks for haste."""
    run.trainer.hooks.append(Report(run))
    run.trainer.fit()


class Report(Hook):
    """At the end of a run: what it cost, samples of its model, and its page."""

    name = "report"

    def __init__(self, run: Run):
        self.run = run

    def complete(self, trainer: Trainer) -> None:
        run = self.run
        if run.signals.received is None and trainer.team.first:
            try:
                run.cost = write_cost(run)
                run.samples = samples.draw(load(run.folder))
                page = html.write(run.folder, run.samples)
                for found in (hook for hook in trainer.hooks if isinstance(hook, Log)):
                    self.show(found, trainer.step, page)
            except Exception as error:  # a page must not spoil a finished run
                log.warning("%s: the report could not be written (%s)", run.folder, error)

    def show(self, found: Log, step: int, page: Path) -> None:
        """Samples and page to whatever logs the run."""
        for number, sample in enumerate(self.run.samples):
            found.tell(partial(show, step=step, name=f"samples/{number + 1}" if number else "samples", sample=sample))
        found.tell(lambda logger: logger.page("report", page))


def show(logger: Logger, step: int, name: str, sample: samples.Sample) -> None:
    """A sample to a logger."""
    if words := sample.words():
        logger.text(step, name, words)
    if png := sample.png:
        logger.image(step, name, png)


def write_cost(run: Run) -> dict[str, Any]:
    """cost.json: FLOPs of the whole run, their share of the peak at its usual speed, and its energy."""
    trainer, run_log = run.trainer, record.read(run.folder)
    rates = sorted(rate for _, rate in run_log.points("train", "per_second")) or [0.0]
    flops = cost.flops_of_draw(run.recipe, run.data, trainer.objective)
    machine = cost.machine(trainer.plan.device, trainer.team.world_size, trainer.plan.precision)
    usual = rates[len(rates) // 2] / trainer.tokens
    found = cost.facts(flops, trainer.cursor, usual, run_log.seconds, machine, trainer.team.world_size)
    files.replace(run.folder / "cost.json", checkpoint.encode(found))
    return found
