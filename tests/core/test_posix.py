"""Systems that are not POSIX are refused in one sentence, by the command and from Python; macOS has no memory limits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from weft.__main__ import run
from weft.core import posix
from weft.core.errors import ConfigError
from weft.core.posix import lock_folder
from weft.training.execution import select_device

WITHOUT = """
import sys
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None
import weft, weft.api, weft.core.errors, weft.data.shards.builder, weft.serving.rendering
try:
    weft.train("hopfield/patterns", out=sys.argv[1])
except weft.core.errors.ConfigError as error:
    print(error)
"""


def test_the_command_refuses_windows_in_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(posix, "fcntl", None)
    assert run(["list"]) == 2
    assert capsys.readouterr().err == (
        "weft: weft runs on Linux and macOS, not on Windows itself; run it in the Windows Subsystem for Linux (wsl --install)\n"
    )


def test_modules_import_without_posix_and_training_refuses(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT, str(tmp_path / "run")], capture_output=True, text=True)
    assert done.stdout.startswith("weft runs on Linux and macOS"), done.stderr


def test_a_folder_is_locked_once(tmp_path: Path) -> None:
    held = lock_folder(tmp_path)
    with pytest.raises(BlockingIOError):
        lock_folder(tmp_path)
    os.close(held)
    os.close(lock_folder(tmp_path))


def test_a_template_is_rendered_where_memory_cannot_be_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    from weft.serving import rendering

    asked = []

    def refuse(kind: int, most: tuple[int, int]) -> None:
        asked.append(kind)
        raise ValueError("current limit exceeds maximum limit")  # what macOS says

    monkeypatch.setattr(resource, "setrlimit", refuse)
    rendering.limit()
    assert asked == [resource.RLIMIT_AS, resource.RLIMIT_FSIZE]


def test_devices_of_other_systems_are_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="weft does not run on 'mps'; use auto, cpu, cuda or cuda:0"):
        select_device("mps")
