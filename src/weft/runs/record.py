"""A run's folder as numbers: its recipe, its log, where it ran, and the command that makes it again."""

from __future__ import annotations

import contextlib
import math
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from weft.core import config, html, renamed
from weft.core.errors import CheckpointError, WeftError
from weft.core.units import duration, number, title
from weft.core.untrusted import kept, measured, mismatch, natural, parse_json, parsing, read_bytes, read_json
from weft.recipes.base import load as load_recipe
from weft.recipes.base import recipe
from weft.runs import plot
from weft.training.checkpoint import checkpoint
from weft.training.log import LARGEST_LOG

Points = list[tuple[float, float]]
ENVIRONMENT = {
    "parameters": natural,
    "init": str | None,
    "plan": [str],
    "data": {str: object},
    "problems": [str],
    "examples": str,
    "versions": {str: str},
    "machine": str,
    "threads": natural,
}
"""What is read of environment.json."""
RECIPE = {"model": dict, "progress": {"metric": str, "goal": str}, "train": {"steps": natural}}
"""What a report needs of recipe.json."""
COST: dict[str, Any] = {
    "peak": str,
    **dict.fromkeys(("flops", "mfu", "flops_per_second", "peak_flops_per_second", "kwh", "co2_kg", "watts", "seconds"), float | int),
    **dict.fromkeys(("flops_per_example", "device_hours", "pue", "carbon_kg_per_kwh"), float | int),
}
"""What is read of cost.json, which is known whole or not at all."""
LINE = {"step": natural, "examples": natural, "seconds": float | int, "train": {str: measured}, "validation": {str: measured}}
"""What is read of a line of metrics.jsonl."""


@dataclass(repr=False)
class RunLog:
    """What a run left behind."""

    folder: Path
    recipe: dict[str, Any]
    lines: list[dict[str, Any]]
    environment: dict[str, Any]
    cost: dict[str, Any]
    """Empty until the run has ended."""

    @property
    def name(self) -> str:
        return str(self.recipe.get("name") or self.folder.name)

    @property
    def metric(self) -> str:
        return str(self.recipe["progress"]["metric"])

    @property
    def goal(self) -> str:
        return str(self.recipe["progress"]["goal"])

    @property
    def step(self) -> int:
        return int(self.lines[-1]["step"]) if self.lines else 0

    @property
    def steps(self) -> int:
        return int(self.recipe["train"]["steps"])

    @property
    def seconds(self) -> float:
        return float(self.lines[-1].get("seconds", 0.0)) if self.lines else 0.0

    @property
    def unit(self) -> str:
        """What is counted: tokens, where an example has several."""
        tokens = self.environment.get("data", {}).get("tokens", 1)
        return "tokens" if isinstance(tokens, int) and tokens > 1 else "examples"

    def names(self, part: str) -> list[str]:
        """Every number that was logged for training or validation, in the order it first came."""
        return list(dict.fromkeys(name for line in self.lines for name in line.get(part, {})))

    def points(self, part: str, name: str) -> Points:
        """(step, value) of a number, without values that are not finite."""
        found = [(line["step"], line[part][name]) for line in self.lines if name in line.get(part, {})]
        return [(step, value) for step, value in found if isinstance(value, (int, float)) and math.isfinite(value)]

    def best(self) -> tuple[float, float] | None:
        """(step, value) of the best validation."""
        held = self.points("validation", self.metric)
        pick = min if self.goal == "min" else max
        return pick(held, key=lambda point: point[1]) if held else None

    def settings(self) -> dict[str, str]:
        """Every setting by its dotted name, as text."""
        return {name: show(value) for name, value in config.flat(self.recipe).items()}

    @property
    def history(self) -> dict[str, np.ndarray]:
        """The log as columns of one length: step, examples, seconds, train/loss, validation/loss, …; NaN where a line lacks one."""
        columns = {name: np.array([line.get(name, 0) for line in self.lines]) for name in ("step", "examples", "seconds")}
        for part in ("train", "validation"):
            for name in self.names(part):
                values = [line.get(part, {}).get(name) for line in self.lines]
                columns[f"{part}/{name}"] = np.array([np.nan if value is None else value for value in values], dtype=float)
        return columns

    def plot(self, *names: str) -> Any:
        """The curves of the named numbers, such as "loss" or "lr", as a figure of matplotlib."""
        return plot.curves(self, names)

    def facts(self) -> list[tuple[str, str]]:
        """What one wants to know of a run first."""
        best, size = self.best(), self.environment.get("parameters")
        return [
            ("folder", str(self.folder)),
            ("steps", f"{self.step:,} of {self.steps:,}"),
            (f"best validation {title(self.metric)}", f"{number(best[1])} (step {best[0]:,})" if best else ""),
            ("parameters", f"{size:,}" if size else ""),
            ("time", duration(self.seconds)),
        ]

    def summary(self) -> str:
        """The same in a line."""
        return f"{self.name}: {', '.join(f'{name} {value}' for name, value in self.facts() if value)}"

    def __repr__(self) -> str:
        return f"RunLog({self.summary()})"

    def _repr_html_(self) -> str:
        return html.pairs(self.name, self.facts())


def recipe_of(folder: Path) -> Any:
    """What a folder trains: its recipe.json or, where that is missing or damaged, its newest checkpoint's; None for a new folder."""
    if there := written(folder / "recipe.json"):
        return renamed.recipe(there)
    found = checkpoint.newest(folder)
    return found.json("recipe.json") if found else None


def read(folder: Path) -> RunLog:
    """Read a run's folder; lines of the log that were cut off are passed over, and so are facts that cannot be read."""
    if folder.is_file():
        raise CheckpointError(f"{folder}: {checkpoint.without_checkpoint(str(folder))}")
    log = folder / "metrics.jsonl"
    facts, cost = (kept(written(folder / f"{name}.json"), kind) for name, kind in (("environment", ENVIRONMENT), ("cost", COST)))
    found = RunLog(folder, recipe_of(folder) or {}, whole_lines(log), facts, cost if len(cost) == len(COST) else {})
    if mismatch(found.recipe, RECIPE):
        raise CheckpointError(f"{folder}: no run here (recipe.json cannot be read); train one with: weft train RECIPE --out {folder}")
    return found


def written(path: Path) -> dict[str, Any]:
    """The object of a JSON file; an empty one where there is none. Numbers in it may be infinite, as settings may."""
    try:
        content = read_json(path, finite=False)
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def whole_lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a log that can be read, each with those of its entries that are of their kind."""
    found = []
    try:
        lines = read_bytes(path, LARGEST_LOG).splitlines()
    except OSError:
        return []
    for line in lines:
        with contextlib.suppress(ValueError):
            if "step" in (content := kept(parse_json(line, finite=False), LINE)):
                found.append(content)
    return found


def show(value: Any) -> str:
    """A setting as text, shortened where it is a long list."""
    if isinstance(value, (list, tuple)):
        return " ".join(map(str, value)) if len(value) <= 8 else f"{' '.join(map(str, value[:4]))} … ({len(value):,} values)"
    return str(value)


def command(run: RunLog) -> str:
    """The command that makes this run: its recipe and every setting in which it differs from it."""
    words = ["weft", "train", run.name]
    if run.environment.get("init"):
        words += ["--init", run.environment["init"]]
    try:
        with parsing(run.folder):
            usual = config.leaves(recipe(run.name).resolve(run.environment.get("data", {})))
            own = config.leaves(load_recipe(run.recipe))
    except WeftError:
        return shlex.join(words) + "  # this recipe is not registered here"
    for name, (kind, value) in own.items():
        if name != "name" and (name not in usual or plain(usual[name][1]) != plain(value)):
            words += as_flag(name, kind, value)
    return shlex.join(words)


def plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def as_flag(name: str, kind: Any, value: Any) -> list[str]:
    """A setting as words of a command line."""
    flag = "--" + name.replace("_", "-")
    if isinstance(value, bool):
        stem, dot, last = flag[2:].rpartition(".")
        return [flag if value else f"--{stem}{dot}no-{last}"]
    return [flag, *map(str, value)] if isinstance(value, (list, tuple)) else [flag, str(value)]
