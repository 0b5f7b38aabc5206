"""Files of text, JSONL and parquet cut into pieces that can be read apart from one another and with little memory.

A piece is a range of bytes between two documents, a row group of a parquet file, or a whole file, which is read as a stream.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, NamedTuple

from weft.core.config import Config
from weft.core.errors import ConfigError, DataError, require
from weft.data.io.archives import is_archive
from weft.data.io.files import MARKS, locate, show, walk
from weft.data.problems import Problems

JSONL = (".jsonl", ".ndjson", ".json")
SPLITS = {"file": None, "blank_lines": rb"\n(?:(?:[ \t\r\f\v]*\n)+|\Z)", "lines": rb"\n"}
"""Patterns that begin with one and the same byte are looked for many times as fast."""
WINDOW = 1 << 16
"""Bytes in which the end of a piece is looked for first."""
BROKEN = (OSError, EOFError, zlib.error, ValueError, NotImplementedError)
"""What libraries raise over files that are not what their name says."""


@dataclass(frozen=True, kw_only=True)
class Reading(Config):
    """How files become documents."""

    field: str = "text"
    """Field of JSONL, or column of parquet, that holds the text of a document."""
    split: Literal["file", "blank_lines", "lines"] = "file"
    """Where a text file is cut into documents: not at all, at blank lines, or at the end of every line."""
    separator: str = ""
    """Text that stands between two documents of a text file, such as <|endoftext|>; where given, `split` does not matter."""
    suffixes: tuple[str, ...] = (".txt", ".md", ".jsonl", ".ndjson", ".parquet", ".gz")
    """Endings of the files that are read of a folder; a file that is named itself may have any."""
    piece_bytes: int = 1 << 21
    """Bytes that a worker reads at once; longer documents of a text file are cut there, at the end of a line, and rows of JSONL
    that are 16 times as long are left out."""


class Source(NamedTuple):
    """A file to read."""

    path: str
    size: int
    kind: str
    """text, jsonl or parquet."""


class Piece(NamedTuple):
    """A part of a source; `start` and `stop` are bytes, or row groups of parquet. Without `stop` it is the whole, as a stream."""

    source: int
    path: str
    kind: str
    start: int
    stop: int | None
    size: int
    """Bytes of the file that it stands for."""
    last: bool
    """Whether the source ends with it."""
    cut: bool = False
    """Whether it ends inside a document."""


class Rule(NamedTuple):
    """What stands between two documents, and how far it is looked for before a document is cut or, of JSONL, left out."""

    between: re.Pattern[bytes] | None
    reach: int


def rule_of(kind: str, reading: Reading) -> Rule:
    if kind == "jsonl":
        return Rule(re.compile(rb"\n"), 16 * reading.piece_bytes)
    between = re.escape(reading.separator.encode()) if reading.separator else SPLITS[reading.split]
    return Rule(re.compile(between), reading.piece_bytes) if between else Rule(None, WINDOW)


def find_sources(inputs: list[str], reading: Reading, problems: Problems, out: str | Path = "") -> list[Source]:
    """The files to read, in the order in which they are named; those of a folder in the order of their path.

    What lies in the folder `out`, where something is made of them, is none of them.
    """
    if reading.piece_bytes < 1:
        raise ConfigError(f"--piece-bytes must be at least 1, not {reading.piece_bytes}")
    found = []
    for given in inputs:
        try:
            place = locate(given)
        except DataError as error:
            raise DataError(f"{show(given)}: no such file or folder, here or below WEFT_DATA") from error
        if is_archive(place):
            raise DataError(f"{show(place)}: is an archive; unpack it, and name the folder")
        if out and place.is_dir() and os.path.realpath(place) == os.path.realpath(out):
            continue  # as the shell may name it where it lies beside the input
        files = walk(place, reading.suffixes, problems, out) if place.is_dir() else [place]
        if not files:
            raise DataError(f"{show(place)}: the folder holds no file that ends in {', '.join(reading.suffixes)}; see --suffixes")
        if not all(map(os.path.isfile, files)):
            raise DataError(f"{show(place)}: is not a regular file")
        found += [Source(str(file), os.path.getsize(file), kind_of(file)) for file in files]
    if not found:
        raise ConfigError(f"{show(out)} is the input itself; use another folder with --out")
    if any(source.kind == "parquet" for source in found):
        require("pyarrow.parquet", "parquet")
    return found


def kind_of(path: Path) -> str:
    name = path.name.lower().removesuffix(".gz")
    return "jsonl" if name.endswith(JSONL) else "parquet" if name.endswith(".parquet") else "text"


def pieces(number: int, source: Source, reading: Reading, start: int) -> Iterator[Piece]:
    """The pieces of a source from a byte, or row group, on where one of them begins."""
    whole = Piece(number, source.path, source.kind, 0, None, source.size, True)
    cuttable = source.size > reading.piece_bytes and not source.path.lower().endswith(".gz")
    if source.kind == "parquet":
        yield from row_groups(whole, start)
    elif cuttable and os.access(source.path, os.R_OK):
        yield from ranges(whole, reading, start)
    else:
        yield whole


def row_groups(whole: Piece, start: int) -> Iterator[Piece]:
    library = require("pyarrow.parquet", "parquet")
    try:
        number = library.ParquetFile(whole.path).num_row_groups
    except BROKEN:
        number = 0  # who reads it says what is wrong
    for group in range(start, number):
        yield whole._replace(start=group, stop=group + 1, size=whole.size // number, last=group == number - 1)
    if not number:
        yield whole


def ranges(whole: Piece, reading: Reading, start: int) -> Iterator[Piece]:
    rule = rule_of(whole.kind, reading)
    with open(whole.path, "rb") as file:
        if file.read(4).startswith(tuple(mark for mark, _ in MARKS)):
            yield whole  # only from its beginning can one tell where a character begins
            return
        while start < whole.size:
            place = start + reading.piece_bytes
            stop, cut = (line_end(file, place, whole.size), False) if whole.kind == "jsonl" else boundary(file, place, whole.size, rule)
            yield whole._replace(start=start, stop=stop, size=stop - start, last=stop == whole.size, cut=cut)
            start = stop


def line_end(file: IO[bytes], place: int, size: int) -> int:
    """Where the first line behind a place begins, however far that is."""
    file.seek(place)
    while place < size and (window := file.read(WINDOW)):
        if found := window.find(b"\n") + 1:
            return min(place + found, size)
        place += len(window)
    return size


def boundary(file: IO[bytes], place: int, size: int, rule: Rule) -> tuple[int, bool]:
    """Where the first document behind a place begins, or a line where none does for long; and whether that cuts a document."""
    reach = min(WINDOW, rule.reach)
    while place < size:
        file.seek(place)
        window = file.read(reach)
        whole = place + len(window) >= size
        found = rule.between.search(window) if rule.between else None
        if found and (whole or found.end() < len(window)):  # at the end of the window it may go on
            return place + found.end(), False
        if whole or not window:
            break
        if reach >= rule.reach:
            return place + (window.find(b"\n") + 1 or before_character(window)), True
        reach = min(4 * reach, rule.reach)
    return size, False


def before_character(data: bytes) -> int:
    """The last place in UTF-8 at which a character begins."""
    for back in range(1, min(4, len(data))):
        if data[-back] & 0xC0 != 0x80:
            return len(data) - back
    return len(data)
