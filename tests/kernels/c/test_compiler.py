from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from weft.kernels.c import compiler

needs_compiler = pytest.mark.skipif(
    not sys.platform.startswith("linux") or not any(map(shutil.which, compiler.COMPILERS)), reason="needs Linux and a C compiler"
)


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A cache of one's own, and nothing loaded before or after."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    compiler.load.cache_clear()
    yield
    compiler.load.cache_clear()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "seven.c"
    path.write_text("int seven(void) { return 7; }\n")
    return path


def kept(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "cache" / "weft").iterdir())


@needs_compiler
def test_what_was_compiled_is_kept_by_its_source(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = compiler.load(source)
    assert library is not None
    assert library.seven() == 7
    (first,) = kept(tmp_path)
    compiler.load.cache_clear()
    monkeypatch.setattr(compiler, "_compile", lambda *_: pytest.fail("it was there"))
    assert compiler.load(source)
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    source.write_text("int seven(void) { return 3 + 4; }\n")
    compiler.load.cache_clear()
    assert compiler.load(source)
    assert len(kept(tmp_path)) == 2
    assert first in kept(tmp_path)


@needs_compiler
def test_a_header_that_changes_is_compiled_again(source: Path, tmp_path: Path) -> None:
    header = source.with_name("number.h")
    source.write_text('#include "number.h"\nint seven(void) { return NUMBER; }\n')
    for number in (7, 8):
        header.write_text(f"#define NUMBER {number}\n")
        compiler.load.cache_clear()
        library = compiler.load(source)
        assert library is not None
        assert library.seven() == number
    assert len(kept(tmp_path)) == 2


@needs_compiler
def test_a_folder_that_cannot_be_written_costs_compiling_again(source: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("no folder")
    library = compiler.load(source)
    assert library is not None
    assert library.seven() == 7


@needs_compiler
def test_several_processes_may_compile_at_once(source: Path, tmp_path: Path) -> None:
    code = f"from pathlib import Path; from weft.kernels.c import compiler; assert compiler.load(Path({str(source)!r})).seven() == 7"
    runs = [subprocess.Popen([sys.executable, "-c", code], env=dict(os.environ)) for _ in range(2)]
    assert [run.wait(60) for run in runs] == [0, 0]
    assert len(kept(tmp_path)) == 1


def test_without_a_compiler_there_is_nothing_and_no_word(
    source: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PATH", "")
    assert compiler.load(source) is None
    assert not caplog.records


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="nothing is compiled elsewhere")
def test_a_compiler_that_fails_is_told_once(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken = tmp_path / "bin" / "cc"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\necho 'seven.c: error: the disk is sulking' >&2\nexit 1\n")
    broken.chmod(broken.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(broken.parent))
    assert [compiler.load(source), compiler.load(source)] == [None, None]
    (told,) = [record.getMessage() for record in caplog.records]
    assert told == f"{broken} did not compile seven.c (seven.c: error: the disk is sulking); torch does its work, more slowly"
