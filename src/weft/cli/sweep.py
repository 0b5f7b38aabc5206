"""`weft sweep RECIPE --optim.lr 1e-4..1e-2:log --model.width 64,128 …`: settings tried side by side, the best chosen on validation."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weft.cli import console
from weft.cli.options import flags, help
from weft.core import config
from weft.core.config import Config
from weft.core.errors import ConfigError
from weft.sweeps.schedule import Method
from weft.sweeps.syntax import NUMBER

if TYPE_CHECKING:
    from weft.recipes.base import Recipe

USAGE = "weft sweep RECIPE --optim.lr 1e-4..1e-2:log --model.width 64,128"
ABOUT = """Trains a recipe with several settings and ranks them by validation; the same command again goes on where it stopped.

What is tried of a setting:
  --model.width 64,128,256        these values
  --optim.lr 1e-4..1e-2:log       numbers of a range, by their ratios; :log:5 for five points of it, 1..6 for one on a plain scale
  --model.hidden 24 12 --model.hidden 48 24     a setting of several numbers, given more than once
Every other setting of the recipe is a flag with one value, as for weft train."""


@dataclass(frozen=True, kw_only=True)
class Options(Config):
    method: Method = "auto"
    """How to search: every combination, some at random, or some of which the better ones are trained longer (successive halving,
    Hyperband); auto is a grid of values, and random where there is a range."""
    trials: int = 0
    """How many combinations to try; 0 for all of a grid and else 16. Hyperband counts for itself."""
    jobs: int = 1
    """Processes that train side by side."""
    eta: int = 3
    """Halving and Hyperband train one in so many further."""
    seed: int = 1
    """Of the combinations that are drawn."""
    out: str = ""
    """Folder of the sweep; empty is runs/sweep-RECIPE."""
    init: str = ""
    """Run or checkpoint to start every trial from, as in finetuning."""


def main(words: list[str]) -> int:
    console.show_warnings()
    if not words or any(word in flags.HELP for word in words):
        print(help.page(USAGE, ABOUT, help.settings_of(Options())))
        return 0 if words else 2
    if words[0].startswith("-"):
        raise ConfigError(f"expected the name of a recipe before {words[0]!r}; see weft list recipes")
    from weft.sweeps.sweep import sweep

    recipe, settings, options = parse(words[0], words[1:])
    given = {name: getattr(options, name) for name in ("method", "trials", "jobs", "eta", "seed")}
    found = sweep(recipe, settings, options.out or None, init=options.init or None, **given)
    if found.trials:
        print(console.table(found.table()))
    if found.signal:
        print("interrupted; the same command goes on")
        return 128 + found.signal
    for error in dict.fromkeys(trial.error for trial in found.ranked if trial.error):
        print(f"failed: {error}")
    print(f"{found.note}\nbest:   {found.command}\nmodel:  {found.best.path}\nreport: {found.path / 'report.html'}")
    return 0


def parse(name: str, words: list[str]) -> tuple[Recipe, dict[str, Any], Options]:
    """The recipe with its single settings applied, what to try of the others, and how."""
    from weft.cli.train import value_of
    from weft.recipes.base import recipe as find_recipe
    from weft.runs.assemble import adopt

    recipe = find_recipe(name)
    if init := value_of("--init", words):
        recipe = adopt(recipe, init)
    _, given = config.separate(words, recipe)
    kinds = [flag for flag in map(with_value, given) if flag[0].endswith(".type") and "," not in flag[-1]]
    recipe = config.parse_flags(kinds, recipe)
    known = config.with_earlier(recipe, config.leaves(recipe))
    free, given = config.separate(words, recipe)
    own = [flag for flag in given if config.flag_name(flag[0], known)[0] not in known]
    for name, *_ in own:
        if "." in name:  # a setting that the recipe does not have: say which is near
            config.parse_flags([[name, ""]], recipe)
    options, _ = flags.parse(Options(), [*free, *(word for flag in own for word in flag)], "weft sweep RECIPE")
    tried: dict[str, list[list[str]]] = {}
    for flag in map(with_value, given):
        setting, _ = config.flag_name(flag[0], known)
        if setting in known and flag not in kinds:
            tried.setdefault(setting, []).append(flag)
    several = {setting: values(flags_, known[setting][0]) for setting, flags_ in tried.items()}
    single = [flags_[-1] for setting, flags_ in tried.items() if several[setting] is None]
    return config.parse_flags(single, recipe), {setting: what for setting, what in several.items() if what is not None}, options


def with_value(flag: list[str]) -> list[str]:
    """`--a=b` as two words."""
    name, equals, value = flag[0].partition("=")
    return [name, value] if equals else flag


def values(given: list[list[str]], kind: Any) -> Any:
    """What to try of a setting, by all the flags that name it; None where that is one value."""
    if len(given) > 1:
        alone = [flag[1:] for flag in given]
        if not any(alone):
            return ["no-" not in flag[0] for flag in given]
        return [value if config.arity(kind) > 1 else value[0] for value in alone]
    [[_, *words]] = given
    several = config.arity(kind) == 1 and len(words) == 1 and ("," in words[0] or re.match(rf"{NUMBER}\.\.", words[0]))
    return words[0] if several else None
