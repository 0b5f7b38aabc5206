"""Writes that are whole or absent, with every system call failing once."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path
from typing import Any

import pytest

from weft.core.errors import CheckpointError
from weft.training.checkpoint import checkpoint, files


class Faults:
    """Lets the n-th call of one system function fail, and counts the calls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, function: str, at: int, code: int):
        self.calls = 0
        real = getattr(os, function)

        def call(*arguments: Any, **settings: Any) -> Any:
            self.calls += 1
            if self.calls == at:
                raise OSError(code, os.strerror(code))
            return real(*arguments, **settings)

        monkeypatch.setattr(os, function, call)


FUNCTIONS = ("open", "write", "fsync", "replace")


def content(value: str) -> dict[str, bytes]:
    return {"small": value.encode() * 100, "large": value.encode() * 1000}


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_any_call_failing_leaves_the_previous_checkpoint_and_no_debris(tmp_path: Path, function: str, code: int) -> None:
    """Save over an older checkpoint of the same step, and beside it, failing at every call in turn."""
    folder = tmp_path / "checkpoints"
    checkpoint.save(folder / "00000001", content("a"))
    for name in ("00000001", "00000002"):
        at = 0
        while True:
            at += 1
            with pytest.MonkeyPatch.context() as patch:
                faults = Faults(patch, function, at, code)
                with contextlib.suppress(OSError):
                    checkpoint.save(folder / name, content("b"))
            files.sweep(folder)
            if faults.calls < at:
                break
            survivors = {path.name: readable(path) for path in folder.iterdir()}
            assert not [path for path in survivors if path.startswith(".")]
            assert all(value is not None for value in survivors.values())
            assert survivors, f"{function} call {at} lost every checkpoint"
        assert readable(folder / name) == content("b")


def readable(path: Path) -> dict[str, bytes] | None:
    try:
        return checkpoint.read(path).files
    except CheckpointError:
        return None


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_failed_replacement_keeps_the_old_content(tmp_path: Path, function: str) -> None:
    path = tmp_path / "run.json"
    files.replace(path, b"old")
    for at in (1, 2):
        with pytest.MonkeyPatch.context() as patch:
            Faults(patch, function, at, errno.ENOSPC)
            try:
                files.replace(path, b"new")
            except OSError:
                assert path.read_bytes() in (b"old", b"new")
        assert [p.name for p in tmp_path.iterdir()] == ["run.json"]
        assert path.read_bytes() in (b"old", b"new")


def test_short_writes_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, data[:7]))
    files.write(tmp_path / "f", b"0123456789" * 5)
    assert (tmp_path / "f").read_bytes() == b"0123456789" * 5


def test_sweeping_removes_what_an_interruption_left(tmp_path: Path) -> None:
    (tmp_path / ".tmp-00000003-99").mkdir()
    (tmp_path / ".tmp-00000003-99" / "recipe.json").write_text("half")
    (tmp_path / ".trash-00000001-99").mkdir()
    (tmp_path / ".tmp-run.json-99").write_text("half")
    (tmp_path / "00000002").mkdir()
    files.sweep(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["00000002"]
