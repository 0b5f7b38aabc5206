"""What the benchmarks of applications share: a task with its contenders, and the training of one of them."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.api import train
from weft.benchmarks.record import Row
from weft.core.config import override
from weft.core.errors import ConfigError
from weft.evaluation.evaluate import evaluate
from weft.recipes.base import recipe as find_recipe
from weft.runs.load import Loaded, load

Files = dict[str, Path]
"""To learn from ("train"), to select by ("dev"), and to report on ("test")."""


@dataclass(frozen=True)
class Contender:
    recipe: str
    settings: dict[str, Any]
    small: dict[str, Any]
    """What a core does in about four minutes, in place of some of the settings."""


@dataclass(frozen=True)
class Task:
    """Real data, the models that learn from them, and what there is without one."""

    contenders: dict[str, Contender]
    prepare: Callable[[Path, Namespace], Files]
    """Write the files of the task to a folder."""
    baselines: Callable[[Files, Namespace], list[Row]]
    """Rows with a name under "model"; what there is to choose is chosen on the file that selects."""
    measure: Callable[[Loaded, Files, Namespace], Row]


def trained(contender: Contender, files: Files, seed: int, out: Path, options: Namespace) -> Loaded:
    """A contender as it was when the data that select liked it best; trained now, where it is not there yet."""
    own = {"data.path": str(files["train"]), "data.validation_path": str(files["dev"]), "train.seed": seed}
    changes = {**contender.settings, **(contender.small if options.small else {}), **own}
    recipe = override(find_recipe(contender.recipe), changes)
    train(recipe, out=out, progress=False)
    if (
        step := load(f"{out}@last").metrics["step"]
    ) < recipe.train.steps:  # a signal ends training, but what is half trained is not measured
        raise ConfigError(f"{out} was stopped at step {step:,} of {recipe.train.steps:,}; the same command goes on with it")
    return load(out)


def metrics(loaded: Loaded, file: Path, *names: str, examples: int = 0, **settings: Any) -> Row:
    """What an evaluation tells of a file that was neither trained on nor selected by."""
    found = evaluate(loaded, *names, data={"path": str(file), "validation_path": str(file)}, examples=examples, settings=settings)
    return {**found.metrics, "examples": found.examples}
