"""Flags of benchmarks: what is wrong with them is said in one sentence, with the nearest name where one was mistyped."""

from __future__ import annotations

import argparse
import json
import math
import re
import shlex
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NoReturn

from weft.core import registry

FOLDERS = re.compile("[^=]*/")
"""What stands before the last name of a path, also of one that a setting names."""


class Arguments(argparse.ArgumentParser):
    def __init__(self, description: str | None, name: str):
        super().__init__(prog=f"weft bench {name}", description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
        self.begun = time.perf_counter()

    def add_names(self, flag: str, known: Iterable[str], **settings: Any) -> None:
        """An argument that takes some of the names that are known."""
        names = list(known)
        self.add_argument(flag, type=partial(one_of, names), metavar="NAME", help=", ".join(names), **settings)

    def command(self, options: argparse.Namespace) -> str:
        """How to ask for the same again: what is not as it is by default, of paths their last names."""
        words = self.prog.split()
        for action in self._actions:
            value = getattr(options, action.dest, action.default)
            if action.dest != "record" and value != action.default:
                values = [] if isinstance(value, bool) else value if isinstance(value, list) else [value]
                words += [*action.option_strings[-1:], *(FOLDERS.sub("", str(one)) for one in values)]
        return shlex.join(words)

    def run(self, options: argparse.Namespace) -> dict[str, Any]:
        """What a record says about this run: the benchmark, the command, and the seconds until now."""
        seconds = round(time.perf_counter() - self.begun, 1)
        return {"benchmark": self.prog.split()[-1], "command": self.command(options), "seconds": seconds}

    def check_sizes(self, flag: str, sizes: Iterable[str], small: str = "tiny") -> None:
        """Refuse to take all memory of a machine that has no GPU."""
        import torch

        large = [size for size in sizes if size != small]
        if large and not torch.cuda.is_available():
            self.error(f"{flag} {large[0]} is for a GPU, and this machine has none that can be used; {flag} {small} runs anywhere")

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"weft: {message}\n")


def settings(words: list[str]) -> dict[str, Any]:
    """name=value pairs, values as JSON where they are JSON."""
    values = {}
    for word in words:
        name, _, value = word.partition("=")
        try:
            values[name] = json.loads(value)
        except ValueError:
            values[name] = value
    return values


def one_of(names: list[str], word: str) -> str:
    if word not in names:
        raise argparse.ArgumentTypeError(f"nothing is called {word!r}{registry.nearest(word, names)}")
    return word


def at_least(low: float) -> Callable[[str], float]:
    """The type of an argument that is a number of the kind of the given one, and not below it."""
    kind = type(low)

    def read(word: str) -> float:
        try:
            number = kind(word)
        except ValueError:
            raise argparse.ArgumentTypeError(f"invalid {kind.__name__} value: {word!r}") from None
        if not low <= number < math.inf:  # nor what is not a number
            raise argparse.ArgumentTypeError(f"must be {low:g} or more, not {word}")
        return number

    return read
