"""`weft.sweep`: settings tried side by side, and the best by validation. The same call again goes on where it stopped."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import Any

import torch

from weft.core import config
from weft.core.errors import ConfigError
from weft.core.units import duration, number
from weft.recipes.base import Recipe, check
from weft.recipes.base import recipe as find_recipe
from weft.report.progress import tell
from weft.runs import record
from weft.sweeps import schedule, space
from weft.sweeps.result import Sweep
from weft.sweeps.schedule import Bracket, Method
from weft.sweeps.trial import Outcome, Task, Trial, advance
from weft.training.checkpoint import checkpoint, files

FILE = "sweep.json"
Settings = dict[str, Any]


def sweep(
    recipe: Recipe | str,
    settings: Mapping[str, Any],
    out: str | Path | None = None,
    *,
    method: Method = "auto",
    trials: int = 0,
    jobs: int = 1,
    eta: int = 3,
    seed: int = 1,
    init: str | None = None,
    progress: bool = True,
) -> Sweep:
    """Try settings of a recipe: {"optim.lr": "1e-4..1e-2:log", "model.width": [64, 128]}; the best is chosen on validation.

    method: grid, random, halving or hyperband; auto is a grid of values, and random where there is a range. trials: how many, 0 for all of
    a grid, else 16; hyperband counts for itself. jobs: processes that train side by side. eta: halving and hyperband go on with one in so
    many. seed: of what is drawn. out: the folder, runs/sweep-RECIPE by default; the same call again goes on, and another one adds to it.
    """
    recipe = find_recipe(recipe) if isinstance(recipe, str) else recipe
    check(recipe)
    if not recipe.train.eval_every:
        raise ConfigError("--train.eval_every 0: a sweep chooses by validation; let it validate, as with --train.eval_every 100")
    if jobs < 1 or trials < 0:
        raise ConfigError(f"--jobs must be at least 1 and --trials not negative, not {jobs} and {trials}")
    tried = space.read(recipe, settings)
    folder = Path(out) if out else Path("runs") / f"sweep-{recipe.name.replace('/', '-') or 'unnamed'}"
    runner = Runner(recipe, folder, init, jobs, tell if progress else lambda _: None)
    runner.run(plan(tried, recipe, method, trials, eta, seed), eta)
    return runner.result()


def plan(tried: space.Space, recipe: Recipe, method: Method, trials: int, eta: int, seed: int) -> list[tuple[list[Settings], Bracket]]:
    """The brackets of a sweep, each with the settings that begin it."""
    if method == "auto":
        method = "grid" if all(part.finite for part in tried.values()) and not trials else "random"
    if method == "grid" and trials:
        raise ConfigError(f"--trials {trials}: a grid tries every combination; take --method random for some of them")
    whole = method == "grid" or (method == "halving" and not trials and all(part.finite for part in tried.values()))
    candidates: Iterator[dict[str, Any]] = iter(space.grid(tried)) if whole else space.draws(tried, seed)
    first = list(islice(candidates, None if whole else trials or schedule.RANDOM)) if method != "hyperband" else []
    train = recipe.train
    found = schedule.brackets(method, len(first), train.steps, min(train.eval_every, train.steps), eta)
    return [(first or list(islice(candidates, bracket.trials)), bracket) for bracket in found]


@dataclass
class Runner:
    """Trains trials side by side and keeps what each has reached in sweep.json."""

    recipe: Recipe
    folder: Path
    init: str | None
    jobs: int
    say: Callable[[str], None]

    def __post_init__(self) -> None:
        self.trials: dict[str, Trial] = {}
        self.reached: dict[str, dict[str, Any]] = {}
        """By the name of a trial: its settings, and the fields of its outcome at each number of steps."""
        self.signal = 0
        files.check_folder(self.folder)
        if (there := self.folder / FILE).exists():
            self.go_on(record.written(there))

    def go_on(self, known: dict[str, Any]) -> None:
        """Take over what an earlier sweep in the folder has reached, if it was one of the same recipe."""
        lines = config.difference(known.get("recipe"), json.loads(json.dumps(config.to_dict(self.recipe))))
        lines += [f"init: {known.get('init')} -> {self.init}"] if known.get("init") != self.init else []
        if lines:
            said = "holds a sweep of another recipe; use another folder with --out. It differs in:"
            raise ConfigError("\n  ".join([f"{self.folder} {said}", *lines]))
        self.reached = known.get("reached", {})
        for name, found in self.reached.items():
            trial = self.trials[name] = Trial(found["settings"], self.folder / name)
            for rung in found["rungs"]:
                self.fill(trial, int(rung))

    def run(self, planned: list[tuple[list[Settings], Bracket]], eta: int) -> None:
        every = {space.folder_name(settings): settings for start, _ in planned for settings in start}
        self.say(f"{len(every)} trials in {self.folder}, chosen by validation {self.recipe.progress.metric}")
        for name, settings in every.items():
            self.trials.setdefault(name, Trial(settings, self.folder / name))
        with workers(self.jobs) as pool:
            for start, bracket in planned:
                alive = list(dict.fromkeys(space.folder_name(settings) for settings in start))
                for rung in bracket.rungs:
                    self.advance(alive, rung, pool)
                    if self.signal:
                        return
                    alive = self.ranked(alive, rung)[: schedule.kept(len(alive), eta)]

    def ranked(self, names: Sequence[str], rung: int) -> list[str]:
        """The best first; what has no value is left behind."""
        sign = 1 if self.recipe.progress.goal == "min" else -1
        values = {name: self.reached[name]["rungs"][str(rung)]["value"] for name in names}
        return sorted((name for name in names if values[name] is not None), key=lambda name: sign * values[name])

    def advance(self, names: Sequence[str], rung: int, pool: ProcessPoolExecutor | None) -> None:
        """Train trials to a rung; those that were there before are left as they are."""
        waiting = [name for name in names if name not in self.reached or str(rung) not in self.reached[name]["rungs"]]
        numbers = count(len(names) - len(waiting) + 1)
        tasks = {name: self.task(self.trials[name], rung) for name in waiting}
        for name, outcome in outcomes(tasks, pool):
            if outcome.signal:
                self.signal = outcome.signal
                return
            self.keep(name, rung, outcome)
            self.say(f"{next(numbers):{len(str(len(names)))}}/{len(names)}  step {rung}  {name}  {self.described(outcome)}")
        for name in names:
            self.fill(self.trials[name], rung)

    def task(self, trial: Trial, rung: int) -> Task:
        made = config.override(self.recipe, trial.settings)
        threads = max(1, torch.get_num_threads() // self.jobs) if self.jobs > 1 else 0
        return Task(config.to_dict(made), trial.path, rung, self.init, threads)

    def keep(self, name: str, rung: int, outcome: Outcome) -> None:
        fields = {"value": outcome.value, "best_step": outcome.best_step, "seconds": outcome.seconds, "error": outcome.error}
        self.reached.setdefault(name, {"settings": self.trials[name].settings, "rungs": {}})["rungs"][str(rung)] = fields
        files.make_folder(self.folder)
        content = {"recipe": config.to_dict(self.recipe), "init": self.init, "reached": self.reached}
        with files.writing(self.folder):
            files.replace(self.folder / FILE, checkpoint.encode(content))

    def fill(self, trial: Trial, rung: int) -> None:
        """The trial's own fields, once it has reached a rung."""
        if rung >= trial.steps:
            trial.steps = rung
            vars(trial).update(self.reached[trial.path.name]["rungs"][str(rung)])

    def described(self, outcome: Outcome) -> str:
        if outcome.value is None:
            return f"failed: {outcome.error}"
        return f"{self.recipe.progress.metric} {number(outcome.value)}  {duration(outcome.seconds)}"

    def result(self) -> Sweep:
        found = Sweep(self.folder, self.recipe, [trial for trial in self.trials.values() if trial.steps], self.signal)
        if found.trials:
            found.write()
        return found


def outcomes(tasks: dict[str, Task], pool: ProcessPoolExecutor | None) -> Iterator[tuple[str, Outcome]]:
    """What came of each task, as they end."""
    if pool is None:
        yield from ((name, advance(task)) for name, task in tasks.items())
        return
    futures = {pool.submit(advance, task): name for name, task in tasks.items()}
    yield from ((futures[future], future.result()) for future in as_completed(futures))


@contextlib.contextmanager
def workers(jobs: int) -> Iterator[ProcessPoolExecutor | None]:
    """Processes that train side by side, each started once; none for a single job."""
    if jobs == 1:
        yield None
        return
    pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), initializer=quiet)
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def quiet() -> None:
    """Leave the terminal to the first process."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
