"""What a sweep found: its trials, the best of them, a table, a page and a CSV file."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.core import html
from weft.core.errors import CheckpointError
from weft.core.units import duration, number, title
from weft.recipes.base import Recipe
from weft.report import sweep as pages
from weft.runs import record
from weft.runs.load import Loaded, load
from weft.sweeps.space import shown
from weft.sweeps.trial import Trial
from weft.training.checkpoint import files


@dataclass(repr=False)
class Sweep:
    """The trials of a sweep; `ranked` has the best first."""

    path: Path
    recipe: Recipe
    trials: list[Trial]
    signal: int = 0
    """What interrupted it, or 0."""

    @property
    def ranked(self) -> list[Trial]:
        """Those that got farthest first, among them the best by validation first; those without a value last."""
        sign = 1 if self.recipe.progress.goal == "min" else -1

        def key(trial: Trial) -> tuple[bool, int, float]:
            return trial.value is None, -trial.steps, sign * (trial.value or 0.0)

        return sorted(self.trials, key=key)

    @property
    def best(self) -> Trial:
        """The trial that was chosen, on the validation data."""
        first = next(iter(self.ranked), None)
        if first is None or first.value is None:
            why = f"; the first said: {first.error}" if first else ""
            raise CheckpointError(f"{self.path}: no trial has a value to choose by{why}")
        return first

    @property
    def model(self) -> Loaded:
        """The best trial's model, ready to be used."""
        return load(self.best.path)

    @property
    def command(self) -> str:
        """The command that trains the best settings from the start."""
        return record.command(record.read(self.best.path))

    @property
    def columns(self) -> dict[str, list[Any]]:
        """The ranked trials as columns; `pandas.DataFrame(sweep.columns)` makes a table of them."""
        ranked = self.ranked
        names = list(dict.fromkeys(name for trial in ranked for name in trial.settings))
        found: dict[str, list[Any]] = {name: [trial.settings.get(name, "") for trial in ranked] for name in names}
        found |= {"steps": [trial.steps for trial in ranked], self.recipe.progress.metric: [trial.value for trial in ranked]}
        found |= {"best_step": [trial.best_step for trial in ranked], "seconds": [trial.seconds for trial in ranked]}
        return found | {"error": [trial.error for trial in ranked], "folder": [str(trial.path) for trial in ranked]}

    def table(self) -> list[tuple[str, ...]]:
        """The same for people, its head first."""
        names = list(dict.fromkeys(name for trial in self.trials for name in trial.settings))
        rows = [(*names, "steps", f"validation {title(self.recipe.progress.metric)}", "at step", "time")]
        for trial in self.ranked:
            values = [shown(trial.settings.get(name, "")) for name in names]
            reached = ("failed", "") if trial.value is None else (number(trial.value), f"{trial.best_step:,}")
            rows.append((*values, f"{trial.steps:,}", *reached, duration(trial.seconds)))
        return rows

    @property
    def note(self) -> str:
        """How far the best number can be believed."""
        tried, metric = sum(trial.value is not None for trial in self.trials), title(self.recipe.progress.metric)
        flattered = f"The best of {tried} was chosen on validation data, which flatters its {metric}"
        return f"{flattered}; measure it on data that no trial has seen."

    def write(self) -> None:
        """report.html and trials.csv in the sweep's folder."""
        head, *rows = self.table()
        ranked = [trial for trial in self.ranked if trial.value is not None]
        metric = self.recipe.progress.metric
        facts = pages.Facts(self.recipe.name, str(self.path), metric, self.note, self.command if ranked else "")
        points = [(trial.settings, trial.value or 0.0) for trial in ranked if trial.steps == ranked[0].steps]
        runs = [(trial.path.name, record.read(trial.path)) for trial in ranked[: pages.SHOWN]]
        failed = [(trial.path.name, trial.error) for trial in self.trials if trial.error]
        with files.writing(self.path):
            files.replace(self.path / "report.html", pages.sweep_page(facts, head, rows, points, runs, failed).encode())
            stream = io.StringIO()
            csv.writer(stream, lineterminator="\n").writerows([self.columns.keys(), *zip(*self.columns.values(), strict=True)])
            files.replace(self.path / "trials.csv", stream.getvalue().encode())

    def __repr__(self) -> str:
        ranked = self.ranked
        best = f", best {ranked[0].path.name}: {number(ranked[0].value)}" if ranked and ranked[0].value is not None else ""
        return f"Sweep({self.recipe.name}: {len(self.trials)} trials in {self.path}{best})"

    def _repr_html_(self) -> str:
        head, *rows = self.table()
        return html.table(f"{self.recipe.name}: {len(self.trials)} trials", head, rows) + f"<p>{self.note}</p>"
