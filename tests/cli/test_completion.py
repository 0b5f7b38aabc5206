"""`weft completion`: instant, and true of what is registered; bash itself completes with it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Outcome
from weft.cli.begin.front import VERBS
from weft.cli.completion import SCRIPTS, complete
from weft.core import registry

LIGHT = "import sys; from weft.__main__ import run; run({}); print([m for m in ('torch', 'numpy', 'rich', 'yaml') if m in sys.modules])"


@pytest.mark.parametrize("words", [["bash"], ["words", "train", "gpt/text", "--optim."], ["words", "list", ""]])
def test_it_imports_nothing_heavy(words: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", LIGHT.format(["completion", *words])], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_words_settings_values_and_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert complete([""]) == list(VERBS)
    assert complete(["tra"]) == ["train"]
    assert complete(["train", "gpt/"]) == [name for name in registry.RECIPES if name.startswith("gpt/")]
    assert complete(["train", "gpt/text", "--optim.l"]) == ["--optim.l1", "--optim.l2", "--optim.lr"]
    assert complete(["train", "gpt/text", "--train.precision", "b"]) == ["bf16"]
    assert complete(["train", "gpt/text", "--data.path", "my"]) == []
    assert complete(["train", "no/such", "--o"]) == ["--out"]
    assert "images" in complete(["list", "i"])
    assert complete(["data", "b"]) == ["build"]
    (tmp_path / "runs" / "mine").mkdir(parents=True)
    (tmp_path / "runs" / "mine" / "recipe.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    assert complete(["sample", "ru"]) == ["runs/mine"] == complete(["train", "gpt/text", "--init", ""])


def test_another_shell_is_refused(command: Callable[..., Outcome]) -> None:
    found = command("completion", "tcsh")
    assert (found.code, found.err) == (2, "weft: completion is for one of bash, zsh, fish, not for 'tcsh'\n")


@pytest.mark.parametrize("shell", SCRIPTS)
def test_each_shell_takes_its_script(shell: str, command: Callable[..., Outcome], tmp_path: Path) -> None:
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    (tmp_path / "script").write_text(command("completion", shell).out)
    done = subprocess.run([shell, "-n", str(tmp_path / "script")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_bash_completes(command: Callable[..., Outcome], tmp_path: Path) -> None:
    if not shutil.which("bash"):
        pytest.skip("bash is not installed")
    (tmp_path / "weft").write_text(f'#!/bin/sh\nexec {sys.executable} -m weft "$@"\n')
    (tmp_path / "weft").chmod(0o755)
    program = f'{command("completion", "bash").out}\nCOMP_WORDS=(weft train gpt/q); COMP_CWORD=2; _weft; echo "${{COMPREPLY[@]}}"'
    environment = {**os.environ, "PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == "gpt/quickstart"
