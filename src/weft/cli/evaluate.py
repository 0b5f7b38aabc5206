"""`weft evaluate CKPT [METRIC…|TASK… --shots K] [--data.path FILE]`: the recipe's metrics, or tasks for language models.

Numbers are printed as a table and written as JSON into the run's folder.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.cli import console, tasks
from weft.cli.options import flags
from weft.core import config, registry
from weft.core.config import Config
from weft.core.errors import ConfigError, DataError
from weft.core.units import number

if TYPE_CHECKING:  # what needs a model is imported when there is one, so that --help is quick
    from weft.data.base import DataConfig
    from weft.runs.load import Loaded

SETTINGS = ("iterations", "length_factor", "lowercase", "tokenize", "unconstrained")
"""Options that are settings of the objective, of which they change how answers are made or compared."""
ABOUT = """CKPT is a run (its best checkpoint), RUN@last or RUN@1000; all metrics are shown where none is named.
Some metrics are computed only when named (`weft list metrics`), with what they need to know: fid=EXTRACTOR iwae=1000.
A TASK (`weft list tasks`) is asked of a language model instead, with --shots worked examples in front of each question, or of word
vectors (analogies, similarity) with its file: --data.path questions-words.txt.
Other data of the same kind are named with --data.path; `weft evaluate CKPT --help` shows all settings of the data."""


@dataclass(frozen=True, kw_only=True)
class Options(Config):
    examples: int = 0
    """Validation examples to use, from the first, or questions of a task, drawn by the seed; 0 for all."""
    shots: int = 0
    """Worked examples in front of each question of a task."""
    seed: int = 0
    """Of the questions and examples that are drawn for a task."""
    template: str = ""
    """File with another prompt for a task, its fields in braces; docs/evaluation.md."""
    iterations: int = 0
    """Passes of a model that makes all tokens of an answer at once; 0 is as many as its recipe says."""
    length_factor: float = 0.0
    """Such an answer gets its predicted length times this; 0 is as the recipe says."""
    lowercase: bool = False
    """Tell BLEU of translations in lower case, too."""
    tokenize: str = ""
    """Tell BLEU of translations cut into words in another way, too: intl, zh or another tokenizer of sacrebleu, or moses-de (of any
    language), normalised and cut by sacremoses; with --lowercase, moses-de is the lc.norm.tok of papers about Multi30k."""
    unconstrained: bool = False
    """Let a model that writes trees say anything, to see how often it writes one by itself."""
    batch: int = 64
    """Examples at a time; the result does not depend on it."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:1."""
    out: str = ""
    """JSON file to write, with the name of the task where there are several; empty is RUN/evaluations/STEP.json,
    to which metrics are added."""


def main(words: list[str]) -> int:
    console.show_warnings()
    registry.load_families()
    names, _ = config.separate([word for word in words if word not in flags.HELP], with_data(tasks.TaskData()))
    asked = any(name in registry.TABLES["tasks"] for name in names[1:])
    data = tasks.TaskData() if asked else data_settings(names[0], words) if names else None
    options, free = flags.parse(with_data(data), words, "weft evaluate", "CKPT [METRIC|TASK…]", ABOUT)
    assert data is not None  # without a checkpoint, parsing shows the help or refuses
    if not asked and (options.shots or options.template):
        raise ConfigError(f"--shots and --template are for tasks{registry.nearest(' '.join(free[1:]), list(registry.TABLES['tasks']))}")
    for name in free[1:] if asked else ():
        registry.entry("tasks", name)  # a wrong name is told before work is done for the others
    from weft.cli.written import default_file, write
    from weft.runs.load import load
    from weft.training.checkpoint import files

    if options.out:
        files.check_file(Path(options.out))
    loaded = load(free[0], options.device)
    if not asked:
        return metrics(loaded, free[1:], options, changed(data, options.data))  # type: ignore[attr-defined]
    for name in free[1:]:
        result = tasks.ask(loaded, name, options)
        target = (
            Path(options.out)
            if options.out
            else default_file(loaded, f"-{name}{f'-{options.shots}shot' if hasattr(result, 'shots') else ''}")
        )
        write(loaded, result, target.with_stem(f"{target.stem}-{name}") if options.out and len(free) > 2 else target)
    return 0


def metrics(loaded: Loaded, names: list[str], options: Options, changes: dict[str, Any]) -> int:
    """The metrics of the recipe."""
    from weft.cli.written import default_file, write
    from weft.evaluation.evaluate import evaluate

    settings = {name: getattr(options, name) for name in SETTINGS if getattr(options, name)}
    try:
        result = evaluate(loaded, *names, data=changes or None, settings=settings, examples=options.examples, batch=options.batch)
    except (ConfigError, DataError) as error:
        close = [task for name in names for task in get_close_matches(name, list(registry.TABLES["tasks"]), n=1)]
        if close:
            raise type(error)(f"{error}. Or was the task {close[0]!r} meant?") from error
        raise
    print(f"{loaded.recipe.name} at {loaded.path}: {result.examples:,} examples in {result.seconds:.1f} s")
    for line in result.problems:
        print(f"data: {line}")
    print(console.table([(metric, number(value)) for metric, value in result.metrics.items()]))
    other = "-" + Path(str(changes.get("path", "other"))).stem if changes else ""
    other += "".join(f"-{name}-{value}" for name, value in settings.items())
    write(loaded, result, Path(options.out) if options.out else default_file(loaded, other), extend=not options.out)
    return 0


def data_settings(name: str, words: list[str]) -> DataConfig:
    """The data settings that the flags may change: the recipe's, or those of a source of files where a path is given."""
    from weft.data.base import with_path
    from weft.recipes.base import load as load_recipe
    from weft.training.checkpoint import checkpoint

    found = checkpoint.find(name)
    own = load_recipe(found.json("recipe.json")).data
    return with_path(own) if any(word.partition("=")[0] == "--data.path" for word in words) else own


def with_data(data: Config | None) -> Options:
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
