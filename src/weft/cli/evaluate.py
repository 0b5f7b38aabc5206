"""`weft evaluate CKPT [METRIC…] [--data.path FILE]`: the recipe's metrics, as a table and as JSON in the run's folder."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft import __version__, config
from weft.cli import console, flags
from weft.config import Config
from weft.data.base import DataConfig
from weft.evaluation.evaluate import Evaluation, evaluate, with_path
from weft.recipes.base import load as load_recipe
from weft.report.words import number
from weft.run import Loaded, load, machine
from weft.training import checkpoint, files

ABOUT = """CKPT is a run (its best checkpoint), RUN@last or RUN@1000; all metrics are shown where none is named.
Other data of the same kind are named with --data.path; `weft evaluate CKPT --help` shows all settings of the data."""


@dataclass(frozen=True, kw_only=True)
class Options(Config):
    examples: int = 0
    """Validation examples to use, from the first; 0 for all."""
    batch: int = 64
    """Examples at a time; the result does not depend on it."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:1."""
    out: str = ""
    """JSON file to write; empty is RUN/evaluations/STEP.json."""


def main(words: list[str]) -> int:
    console.show_warnings()
    names, _ = config.separate([word for word in words if word not in flags.HELP], Options())
    data = data_settings(names[0], words) if names else None
    options, free = flags.parse(with_data(data), words, "weft evaluate", "CKPT [METRIC…]", ABOUT)
    assert data is not None  # without a checkpoint, parsing shows the help or refuses
    changes = changed(data, options.data)  # type: ignore[attr-defined]
    loaded = load(free[0], options.device)
    result = evaluate(loaded, *free[1:], data=changes or None, examples=options.examples, batch=options.batch)
    print(f"{loaded.recipe.name} at {loaded.path}: {result.examples:,} examples in {result.seconds:.1f} s")
    for line in result.problems:
        print(f"data: {line}")
    print(console.table([(metric, number(value)) for metric, value in result.metrics.items()]))
    target = Path(options.out) if options.out else default_file(loaded, changes)
    files.make_folder(target.parent)
    files.replace(target, checkpoint.encode(describe(loaded, result)))
    print(f"written to {target}")
    if result.findings:
        said = target.with_name(f"{target.stem}-predictions{result.findings.suffix}")
        files.replace(said, result.findings.content.encode())
        print(f"predictions written to {said}")
    return 0


def data_settings(name: str, words: list[str]) -> DataConfig:
    """The data settings that the flags may change: the recipe's, or those of a source of files where a path is given."""
    found = checkpoint.find(name)
    own = load_recipe(found.json("recipe.json")).data
    return with_path(own) if any(word.partition("=")[0] == "--data.path" for word in words) else own


def with_data(data: DataConfig | None) -> Options:
    """Options with a field `data`, so that its settings become flags."""
    if data is None:
        return Options()
    kind = dataclasses.make_dataclass(
        "Evaluate", [("data", type(data), field(default=data))], bases=(Options,), frozen=True, kw_only=True, namespace={"__doc__": ""}
    )
    options: Options = kind()
    return options


def changed(old: Config, new: Config) -> dict[str, Any]:
    """The settings in which two configs differ."""
    before = config.leaves(old)
    return {name: value for name, (_, value) in config.leaves(new).items() if before[name][1] != value}


def default_file(loaded: Loaded, changes: dict[str, Any]) -> Path:
    """RUN/evaluations/STEP.json, with the name of other data."""
    run = loaded.path.parent.parent if loaded.path.parent.name == "checkpoints" else loaded.path.parent
    other = "-" + Path(str(changes.get("path", "other"))).stem if changes else ""
    return run / "evaluations" / f"{loaded.path.name}{other}.json"


def describe(loaded: Loaded, result: Evaluation) -> dict[str, Any]:
    """The record of an evaluation."""
    numbers = dataclasses.asdict(dataclasses.replace(result, findings=None))
    del numbers["findings"]
    return {"recipe": loaded.recipe.name, "weft": __version__, "machine": machine(), **numbers}
