"""Rows of a CSV, TSV, JSONL or plain text file one after the other, whatever its size; a bad one is an error in its place.

CSV and TSV are read as in `weft.data.io.records`. Of any other text each line is a row with the one column "text".
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from weft.core.errors import DataError
from weft.data.io.encodings import BYTE_ORDER_MARKS, without_mark
from weft.data.io.files import reason, show, well_formed
from weft.data.io.records import MAX_RECORD_LINES, SEPARATORS, Header, Separator, looks_like_header
from weft.data.io.sniff import HEAD, refuse_binary

MAX_LINE = 1 << 24
"""Most characters of a line."""
LOOKED_AT = 200
"""Records by which a header is recognised."""
JSON_SUFFIXES, TABLE_SUFFIXES = ("jsonl", "ndjson", "json"), ("csv", "tsv")


class Record(NamedTuple):
    """A row with its location; without cells where `error` says what is wrong with it."""

    location: str
    cells: dict[str, Any]
    error: str = ""


Lines = Iterator[tuple[int, str]]
Split = Iterator[tuple[int, list[str] | str]]


@dataclass
class RowStream:
    """A file that is read from its beginning to its end, once."""

    path: Path
    names: list[str]
    rows: Iterator[Record]
    header: bool
    """Whether the first line named the columns."""
    binary: Any = field(repr=False)
    size: int = 0

    @property
    def position(self) -> int:
        """Bytes read, of `size`."""
        at: int = self.size if self.binary.closed else self.binary.tell()
        return at

    def close(self) -> None:
        self.binary.close()


def open_rows(path: Path, known: set[str], header: Header = "detect", separator: Separator = "detect") -> RowStream:
    """The rows of a file. known: column names by which a first line is known for a header."""
    binary = open_binary(path)
    try:
        return read_rows(path, binary, known, header, separator)
    except BaseException:
        binary.close()
        raise


def read_rows(path: Path, binary: Any, known: set[str], header: Header, separator: Separator) -> RowStream:
    """The rows of an open file."""
    suffix = path.name.removesuffix(".gz").rpartition(".")[2].lower()
    lines = read_lines(path, binary)
    first = next(((number, line) for number, line in lines if line.strip()), None)
    if first is None:
        raise DataError(f"{show(path)}: is empty; it should hold a row per line")
    lines = chain([first], lines)
    size = path.stat().st_size
    if suffix in JSON_SUFFIXES or (suffix not in TABLE_SUFFIXES and first[1].lstrip().startswith("{")):
        records = json_rows(path, lines)
        some = list(islice(records, LOOKED_AT))
        names = list(dict.fromkeys(name for record in some for name in record.cells))
        return RowStream(path, names, chain(some, records), True, binary, size)
    if suffix not in TABLE_SUFFIXES and separator == "detect":
        rows = (Record(f"{show(path)}:{number}", {"text": line}) for number, line in lines)
        return RowStream(path, ["text"], rows, False, binary, size)
    candidates = {"tsv": "\t", "csv": ",;\t"}.get(suffix, "\t,;")
    delimiter = SEPARATORS[separator] if separator != "detect" else max(candidates, key=first[1].count)
    split = ((number, line.split("\t")) for number, line in lines) if delimiter == "\t" else split_quoted(lines, delimiter)
    return delimited(path, split, known, header, binary, size)


def open_binary(path: Path) -> Any:
    """The file's bytes as they are on disk, refused where they are no text."""
    if not path.is_file():
        raise DataError(f"{show(path)}: {'is a folder where a file is expected' if path.is_dir() else 'no such file'}")
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as head:
            first = head.read(HEAD)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{show(path)}: cannot be read ({reason(error)})") from error
    if not any(first.startswith(mark) for mark, _ in BYTE_ORDER_MARKS):
        refuse_binary(first, path)
    return path.open("rb")


def read_lines(path: Path, binary: Any) -> Lines:
    """Numbered lines without their ends, undecodable bytes as U+FFFD; of one that is too long the first characters."""
    try:
        start = binary.peek(4)[:4] if path.suffix != ".gz" else b""
        encoding = next((name for mark, name in BYTE_ORDER_MARKS if start.startswith(mark)), "")
        encoding = encoding or (without_mark(binary.peek(HEAD)[:HEAD]) if start else "") or "utf-8-sig"
        content: Any = gzip.GzipFile(fileobj=binary) if path.suffix == ".gz" else binary
        number = 0
        with io.TextIOWrapper(content, encoding=encoding, errors="replace") as text:
            while line := text.readline(MAX_LINE):
                number += 1
                yield number, line.removesuffix("\n")
                while len(line) == MAX_LINE and not line.endswith("\n"):
                    line = text.readline(MAX_LINE)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{show(path)}: cannot be read to its end ({reason(error)})") from error


def split_quoted(lines: Lines, delimiter: str) -> Split:
    """The cells of each record with the line it starts on, or what is wrong with it: then only its first line is given up."""
    waiting: deque[tuple[int, str]] = deque()
    while True:
        number, line = waiting.popleft() if waiting else next(lines, (0, ""))
        if not number:
            return
        if '"' not in line:
            yield number, line.split(delimiter)
            continue
        taken: list[tuple[int, str]] = []
        reader = csv.reader(feed(line, waiting, lines, taken), delimiter=delimiter, strict=True)
        try:
            yield number, next(reader)
        except (csv.Error, StopIteration) as error:
            waiting.extendleft(reversed(taken))
            yield number, f"misplaced quotes ({error})"


def feed(line: str, waiting: deque[tuple[int, str]], lines: Lines, taken: list[tuple[int, str]]) -> Iterator[str]:
    """A line and those after it, as far as a record may go; `taken` are those that were asked for."""
    yield f"{line}\n"
    while len(taken) < MAX_RECORD_LINES:
        following = waiting.popleft() if waiting else next(lines, None)
        if following is None:
            return
        taken.append(following)
        yield f"{following[1]}\n"


def delimited(path: Path, split: Split, known: set[str], header: Header, binary: Any, size: int) -> RowStream:
    filled = ((number, cells) for number, cells in split if isinstance(cells, str) or any(cell.strip() for cell in cells))
    some = list(islice(filled, LOOKED_AT))
    good = [cells for _, cells in some if not isinstance(cells, str)]
    if not good:
        raise DataError(f"{show(path)}: holds no usable row; one per line, its cells separated by tabs or commas, is expected")
    words = [cell.strip() for cell in good[0]]
    is_header = header == "yes" or (header == "detect" and (bool(known & set(words)) or looks_like_header(good, "")))
    width = len(good[0]) if is_header else max(map(len, good), key=[len(cells) for cells in good].count)
    names = [word if is_header and word and words.index(word) == place else str(place + 1) for place, word in enumerate(words)]
    names = names if is_header else [str(place + 1) for place in range(width)]
    if is_header:
        some.remove(next(record for record in some if record[1] is good[0]))
    rows = (row(path, number, names, cells) for number, cells in chain(some, filled))
    return RowStream(path, names, rows, is_header, binary, size)


def row(path: Path, number: int, names: list[str], cells: list[str] | str) -> Record:
    location = f"{show(path)}:{number}"
    if isinstance(cells, str):
        return Record(location, {}, cells)
    found = dict(zip(names, cells, strict=False))
    return Record(location, found, "" if len(cells) == len(names) else f"{len(cells)} cells where {len(names)} are expected")


def json_rows(path: Path, lines: Lines) -> Iterator[Record]:
    """The object of each line; of a list the columns are 1, 2, …, of a text or a number it is the column "text"."""
    for number, line in lines:
        if not line.strip():
            continue
        location = f"{show(path)}:{number}"
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            yield Record(location, {}, f"not JSON ({str(error)[:80]})")
            continue
        if isinstance(value, list):
            value = {str(place): item for place, item in enumerate(value, 1)}
        elif not isinstance(value, dict):
            value = {"text": value}
        yield Record(location, {well_formed(name): clean(item) for name, item in value.items()})


def clean(value: Any) -> Any:
    """A JSON value whose texts can be encoded."""
    if isinstance(value, str):
        return well_formed(value)
    return [clean(item) for item in value] if isinstance(value, list) else value
