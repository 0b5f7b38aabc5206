"""Every command of README.md and docs/: `python -m reliability.documents` says which of them no copy of weft would take as it is typed.

A command resolves where its verb, its recipe and every flag exist and each value is of the right kind. No data, no run and no network is
asked for, so this runs with the tests, and in whatever environment it is called from; `reliability/newcomer.py` runs those of the README.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from typing import Any
from unittest import mock

from reliability.blocks import commands, documents
from weft.cli.begin.front import VERBS
from weft.core import registry
from weft.core.errors import ConfigError, WeftError


class Resolved(BaseException):
    """A verb has understood its words."""


def resolve(words: list[str]) -> None:
    """Raises what the command would be refused with before it looks at a file."""
    verb, rest = words[1] if len(words) > 1 else "", words[2:]
    if verb not in VERBS:
        raise ConfigError(f"no verb is called {verb!r}")
    if verb == "train" and rest[0].endswith("recipe.json"):  # of a run that is not there
        rest = ["gpt/text", *rest[1:]]
    if verb == "train":
        registry.entry("recipes", rest[0])
    if verb == "train" and "--help" not in rest:
        importlib.import_module("weft.cli.train").parse(rest[0], without_files(rest[1:]))
    elif verb == "plan":
        importlib.import_module("weft.cli.options.plan_words").parse(rest)
    elif verb == "bench":
        registry.entry("benches", rest[0])
    elif verb == "birthplace" and rest[:1] == ["ask"]:
        assert len(rest) > 2
    elif verb in ("list", "completion"):
        with mock.patch("builtins.print"):
            if code := importlib.import_module(f"weft.cli.{verb}").main(rest):
                raise ConfigError(f"weft {verb} ends with {code}")
    elif verb != "train":
        parse_only(verb, rest)


def parse_only(verb: str, words: list[str]) -> None:
    """As the verb begins, until its flags are understood."""
    from weft.cli.options import flags

    real = flags.parse

    def parse(*given: Any, **named: Any) -> Any:
        real(*given, **named)
        raise Resolved

    module = importlib.import_module(f"weft.cli.{verb}")
    with contextlib.ExitStack() as replaced, contextlib.suppress(Resolved):
        replaced.enter_context(mock.patch.object(flags, "parse", parse))
        if hasattr(module, "data_settings"):  # of a run, which is not there
            replaced.enter_context(mock.patch.object(module, "data_settings", data_of_run))
        module.main(words)
        raise ConfigError(f"weft {verb} did not look at its flags")


def data_of_run(name: str, words: list[str]) -> Any:
    """The data settings of the run of a recipe, by the folder that it gets when nothing else is said."""
    from weft.recipes.base import recipe

    run = name.rstrip("/").rpartition("/")[2].partition("@")[0]
    return recipe(next((one for one in registry.RECIPES if one.replace("/", "-") == run), "gpt/text")).data


def without_files(words: list[str]) -> list[str]:
    """Without the flags whose value is a run or a file that is read at once."""
    kept, skip = [], False
    for word in words:
        if not skip and word not in ("--init", "--config"):
            kept.append(word)
        skip = word in ("--init", "--config") and not skip
    return kept


def main() -> int:
    """Try every command, and say what is wrong with those that do not resolve."""
    found = [command for path in documents() for command in commands(path) if command.words]
    wrong = 0
    os.environ.setdefault("COLUMNS", "100")
    for command in found:
        try:
            resolve(command.words)
        except (WeftError, AssertionError, ImportError) as error:
            wrong += 1
            print(f"{command.place}: {command.line}\n  {error}")
    print(f"{len(found)} commands, {wrong} that do not resolve")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
