"""What the makers of specimens share: honest files with what is done to them, in a process of its own."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.__main__ import run
from weft.core.errors import WeftError

Files = dict[str, bytes]
SENTENCES = [f"the {a} {b} sees {c} of {d} trees" for a in ("old", "new") for b in ("cat", "dog", "owl") for c in "abc" for d in "789"]
TEXT = ". ".join(SENTENCES)
QUIET = ("--train.device", "cpu", "--train.eval_examples", "8", "--train.batch", "4", "--train.log_every", "1")
TINY = (
    "--data.context",
    "16",
    "--model.position",
    "learned",
    "--model.layers",
    "1",
    "--model.heads",
    "2",
    "--model.width",
    "16",
    "--train.ema",
    "0.9",
)


@dataclass(frozen=True)
class Specimen:
    """Honest files and what is done with them, in a process of its own; its result is an exit code."""

    name: str
    files: Files
    act: Callable[[Path], int]
    outside: tuple[str, ...] = ()
    """Beginnings of paths that are there but never changed, such as the user's own text."""
    must_work: str = ""
    """Files that begin so may be damaged in any way, and the command works nevertheless."""


def command(*words: str) -> Callable[[Path], int]:
    """A command of weft, in which {} stands for the folder."""
    return lambda folder: run([word.replace("{}", str(folder)) for word in words])


def told(act: Callable[[Path], Any]) -> Callable[[Path], int]:
    """A call as a command: an error of ours is one line and an exit code."""

    def within(folder: Path) -> int:
        try:
            act(folder)
        except WeftError as error:
            print(f"weft: {error}", file=sys.stderr)
            return error.exit_code
        return 0

    return within


def read_files(folder: Path) -> Files:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def quietly(words: list[str]) -> None:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
        code = run(words)
    assert code == 0, (words, said.getvalue())
