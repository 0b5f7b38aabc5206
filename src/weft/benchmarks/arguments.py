"""Flags of benchmarks: what is wrong with them is said in one sentence, with the nearest name where one was mistyped."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from functools import partial
from typing import Any, NoReturn

from weft import registry


class Arguments(argparse.ArgumentParser):
    def __init__(self, description: str | None, prog: str | None = None):
        super().__init__(prog=prog, description=description, formatter_class=argparse.RawDescriptionHelpFormatter)

    def add_names(self, flag: str, known: Iterable[str], **settings: Any) -> None:
        """An argument that takes some of the names that are known."""
        names = list(known)
        self.add_argument(flag, type=partial(one_of, names), metavar="NAME", help=", ".join(names), **settings)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"weft: {message}\n")


def one_of(names: list[str], word: str) -> str:
    if word not in names:
        raise argparse.ArgumentTypeError(f"nothing is called {word!r}{registry.nearest(word, names)}")
    return word
