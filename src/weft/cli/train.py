"""`weft train RECIPE [--model.width 512 …] [--init CKPT] [--out DIR]`: train, or continue where the same command stopped."""

from __future__ import annotations

import dataclasses
import inspect
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.cli import console
from weft.cli.options import flags, help
from weft.cli.options import words as spelling
from weft.core import config, registry
from weft.core.config import Config
from weft.core.errors import ConfigError

if TYPE_CHECKING:  # what trains is imported when something is trained, so that --help is quick
    from weft.recipes.base import Recipe
    from weft.training.parallel.team import Team

USAGE = """usage: weft train RECIPE|FILE [--config FILE] [--out DIR] [--init CKPT] [SETTINGS]

Trains a recipe; the same command again continues where it stopped. Every setting of the recipe is a flag:
  weft train gpt/text --data.path my.txt --model.width 256 --train.steps 500
  weft train gpt/text --data.path my.txt --optim.type muon --optim.momentum 0.9
  weft train gpt/text --path my.txt --lr 1e-3 --batch-size 64   a last name that one setting has may stand alone
  weft train gpt/text --config mine.yaml   settings from a file: YAML, JSON or TOML, nested or dotted; flags come on top
  weft train runs/mine/recipe.json --out runs/again   the recipe of a run, or a file with `recipe: gpt/text` in it
  weft train RECIPE --help      shows them all
  weft train RECIPE --explain   says what was chosen and why, and which kernels serve the model
  weft list recipes             shows the recipes; weft start PATH proposes one for your data"""


@dataclass(frozen=True, kw_only=True)
class Place(Config):
    out: str = ""
    """Folder of the run; empty is runs/RECIPE."""
    init: str = ""
    """Run or checkpoint whose model, weights and tokens to start from, as in finetuning; empty starts afresh."""
    config: str = ""
    """YAML, JSON or TOML file of settings by their names, nested or dotted; flags come on top."""
    explain: bool = False
    """Show why each choice of execution was made, and every kernel for every kind of block and attention, and why it does not serve."""


def main(words: list[str]) -> int:
    console.show_warnings()
    if not words or words[0] in flags.HELP:
        print(USAGE)
        return 0 if words else 2
    if words[0].startswith("-"):
        raise ConfigError(f"expected the name of a recipe before {words[0]!r}; see weft list recipes")
    if words[1:] and all(word in flags.HELP for word in words[1:]) and (page := help.of_recipe(words[0], help.settings_of(Place()))):
        print(page)
        return 0
    return train(words)


def train(words: list[str]) -> int:
    from weft.api import default_folder, fit
    from weft.cli.describe import closing, explanation, finished, opening
    from weft.report.progress import Progress
    from weft.runs.assemble import assemble
    from weft.training.parallel import processes

    recipe, place = parse(words[0], words[1:])
    folder = Path(place.out) if place.out else default_folder(recipe)
    with processes.joined(recipe.parallel, recipe.train) as team:
        run = assemble(recipe, folder, place.init or None, [Progress()] if team.first else [], team)
        done = finished(run)
        say(team, done or "\n".join([*opening(run), *(explanation(run) if place.explain else [])]))
        if not done:
            fit(run)
    say(team, "\n".join(closing(run)))
    return 128 + run.signals.received if run.signals.received else 0


def say(team: Team, text: str) -> None:
    if team.first:
        from weft.report.progress import tell

        tell(text)


def parse(name: str, words: list[str]) -> tuple[Recipe, Place]:
    """The recipe with its flags applied, and where to train it. With --init the model is that of the checkpoint.

    Another kind of optimiser comes first, as the flags are its own.
    """
    from weft.runs import kinds
    from weft.runs.assemble import adopt, initial_recipe

    recipe, words = begin(name, words)
    initial = initial_recipe(init) if (init := value_of("--init", words)) else None
    recipe = adopt(recipe, initial) if initial else recipe
    with kinds.starting(recipe, initial):
        return settled(name, recipe, words)


def settled(name: str, recipe: Recipe, words: list[str]) -> tuple[Recipe, Place]:
    """A recipe with its flags applied, and where to train it."""
    words = spelling.spelled(words, names_of(recipe), f"weft train {name}")
    free, given = config.separate(words, recipe)
    if free and Path(free[0]).exists():
        raise ConfigError(f"data are named with a flag: weft train {name} --data.path {free[0]}")
    recipe = config.parse_flags([flag for flag in given if flag[0].partition("=")[0].endswith(".type")], recipe)
    parts = [f.name for f in dataclasses.fields(recipe) if f.name != "name"]
    kind = dataclasses.make_dataclass(
        "Command",
        [(part, type(getattr(recipe, part)), field(default_factory=partial(getattr, recipe, part))) for part in parts],
        bases=(Place,),
        frozen=True,
        kw_only=True,
        namespace={"__module__": __name__},
    )
    settings: Any
    settings, _ = flags.parse(kind(), words, f"weft train {name}", "", inspect.getdoc(registry.find("recipes", recipe.name)) or "")
    changed = {part: getattr(settings, part) for part in parts}
    return dataclasses.replace(recipe, **changed), settings


def begin(name: str, words: list[str]) -> tuple[Recipe, list[str]]:
    """The recipe of a name or a file, and the words with the settings of files as flags in front of them."""
    from weft.recipes import base

    read = spelling.read(name) if spelling.is_file(name) else {"recipe": name}
    whole = {"data", "model", "objective", "optim"} <= read.keys() and "recipe" not in read
    of = str(read.pop("recipe", read.get("name", "")))
    if not of:
        raise ConfigError(f"{name}: does not say which recipe its settings are for; add a line such as recipe: gpt/text")
    if of not in registry.RECIPES and Path(of).exists():
        raise ConfigError(f"{of}: is no recipe; weft start {of} looks at such data and says which to train")
    recipe = base.load(read) if whole else base.recipe(of)
    given = {} if whole else read
    if file := value_of("--config", words):
        given = {**given, **spelling.read(file)}
    given = {key: value for key, value in given.items() if key not in ("name", "recipe")}
    kinds = {f.name: registry.name_of(type(getattr(recipe, f.name))) or "" for f in dataclasses.fields(recipe)}
    return recipe, [*spelling.as_flags(given, kinds), *words]


def names_of(recipe: Recipe) -> set[str]:
    """Full names of every flag of a training, those of optimisers of another type among them."""
    known = {f.name for f in dataclasses.fields(Place)} | set(config.with_earlier(recipe, config.leaves(recipe)))
    optims = {f"optim.{turn}": part for turn, part in recipe.optim.items()} if isinstance(recipe.optim, dict) else {"optim": recipe.optim}
    for place, part in {"objective": recipe.objective, **optims}.items():
        others = [registry.config_class(other) for other in registry.alternatives(type(part))]
        known |= {f"{place}.{f.name}" for other in others for f in dataclasses.fields(other)} - {f"{place}.schedule"}
    return known


def value_of(flag: str, words: list[str]) -> str:
    """What a flag is set to, as `--flag value` or `--flag=value`; empty where it is not."""
    for word, following in pairwise([*words, ""]):
        if word == flag or word.startswith(f"{flag}="):
            return word.partition("=")[2] or following
    return ""
