"""Files that may come from anybody."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from weft.core import untrusted
from weft.core.errors import CheckpointError, ConfigError, DataError, MissingExtra


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")  # to open it would wait for somebody who writes
    (tmp_path / "device").symlink_to("/dev/zero")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").write_bytes(b"12")
    (tmp_path / "link").symlink_to("file")
    for name, said in (("fifo", "not a regular file"), ("device", "not a regular file"), ("loop", "Too many"), ("", "Is a directory")):
        with pytest.raises(OSError, match=said):
            untrusted.open_regular(tmp_path / name)
    assert untrusted.read_bytes(tmp_path / "link", most=2) == b"12"
    with pytest.raises(OSError, match="2 bytes are more than the 1 accepted"):
        untrusted.read_bytes(tmp_path / "file", most=1)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"[" * 100_000, "without end"),
        (b"[" * 500 + b"]" * 500, "more than 100 lists"),
        (b"[" + b"1," * 5_000_000 + b"1]", "more than 4,000,000 values"),
        (b"9" * 50, "50 digits"),
        (b"1e999", "beyond any"),
        (b"[NaN]", "no number of JSON"),
        (b"\xff", "utf"),
        (b"{", "line 1"),
    ],
)
def test_what_is_no_json_of_reasonable_size_is_a_value_error(data: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        untrusted.parse_json(data)


def test_what_python_writes_of_infinite_numbers_is_read_where_it_may_stand() -> None:
    assert untrusted.parse_json(b'{"best": Infinity}', finite=False) == {"best": float("inf")}


@pytest.mark.parametrize(
    ("value", "schema", "wrong"),
    [
        ({"a": 1, "b": [{"c": "x"}]}, {"a": int, "b": [{"c": str}]}, ""),
        ({"a": True}, {"a": int}, "a"),
        ({"a": True}, {"a": bool}, ""),
        ({"b": [{"c": "x"}, {"c": 1}]}, {"b": [{"c": str}]}, "b[1].c"),
        ({}, {"a": int}, "a"),
        ([], {"a": int}, "it"),
        ({"x": {"y": 1.0}}, {str: {"y": float | int}}, ""),
        ({"x": {"y": float("inf")}}, {str: {"y": float | int}}, "x.y"),
        ({"a": -1}, {"a": untrusted.natural}, "a"),
        ({"a": 2**60}, {"a": untrusted.natural}, "a"),
        ({"a": "<u2"}, {"a": ("<u2", "<u4")}, ""),
        ({"a": 1}, {"a": (True, "1")}, "a"),
    ],
)
def test_the_part_that_is_not_of_its_kind_is_named(value: Any, schema: Any, wrong: str) -> None:
    assert untrusted.mismatch(value, schema) == wrong


def test_what_is_of_its_kind_is_kept() -> None:
    schema = {"init": str | None, "threads": untrusted.natural}
    assert untrusted.kept({"init": 5, "threads": 2, "more": 1}, schema) == {"threads": 2}
    assert untrusted.kept([1], schema) == {}


def test_whatever_fails_becomes_one_sentence() -> None:
    for error in (KeyError("x"), TypeError("x"), RecursionError("x"), MemoryError("x"), ValueError("x"), AssertionError("x")):
        with pytest.raises(DataError, match=r"^file: is damaged \(.*x"), untrusted.parsing("file"):
            raise error
    with pytest.raises(CheckpointError, match=r"file: cannot be read \(No such file"), untrusted.parsing("file", CheckpointError):
        Path("/no such file").read_bytes()
    with pytest.raises(CheckpointError, match="file: no field"), untrusted.parsing("file", CheckpointError):
        raise ConfigError("no field")  # else the search for a checkpoint would end here
    for passed in (ConfigError("x"), MissingExtra("x"), KeyboardInterrupt()):
        with pytest.raises(type(passed)), untrusted.parsing("file"):
            raise passed
