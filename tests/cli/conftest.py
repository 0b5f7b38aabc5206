"""One small finished run, made once, and commands run inside this process."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

import weft
from weft.__main__ import run as run_command

TEXT = "the quick brown fox jumps over the lazy dog and runs away.\n" * 40
TINY = {"data.context": 16, "model.layers": 1, "model.heads": 2, "model.width": 16, "train.batch": 4, "train.eval_examples": 16}


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


def weft_command(*words: str) -> Outcome:
    """What `weft WORDS` would print and return."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = run_command(list(words))
        except SystemExit as exit:
            code = int(exit.code or 0)
    return Outcome(code, out.getvalue(), err.getvalue())


@pytest.fixture
def command() -> Callable[..., Outcome]:
    return weft_command


@pytest.fixture(scope="session")
def text_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "fox.txt"
    path.write_text(TEXT)
    return path


@pytest.fixture(scope="session")
def text_run(tmp_path_factory: pytest.TempPathFactory, text_file: Path) -> Path:
    """A finished run of gpt/text."""
    folder = tmp_path_factory.mktemp("runs") / "fox"
    changes = {**TINY, "data.path": str(text_file), "train.steps": 12, "train.eval_every": 4, "train.log_every": 2}
    weft.train(weft.recipe("gpt/text", changes), out=folder)
    return folder


def tiny_flags(text_file: Path, **more: object) -> list[str]:
    """Flags of a run that takes a second."""
    settings = {**TINY, "data.path": text_file, "train.steps": 6, "train.eval_every": 3, "train.log_every": 2, **more}
    return [word for name, value in settings.items() for word in (f"--{name}", str(value))]
