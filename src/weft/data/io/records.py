"""Records of TSV, CSV and JSONL files with their line numbers; unusable ones are counted and listed.

TSV has no quoting. CSV is RFC 4180, with commas or semicolons; a record may run over several lines. JSONL is one object, or
one list, per line.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from weft.core import registry
from weft.core.errors import ConfigError, DataError
from weft.data.base import Problems
from weft.data.io.files import locate, read_bytes, show, unix_lines, well_formed
from weft.data.io.text import decode

Header = Literal["detect", "yes", "no"]
Separator = Literal["detect", "tab", "comma", "semicolon"]
SEPARATORS = {"tab": "\t", "comma": ",", "semicolon": ";"}
COLUMN_NAMES = {"label", "class", "target", "category", "text", "sentence", "source", "id", "input", "output", "prompt", "completion"}
"""Column names by which a header line is recognised."""
MAX_LINE = 1 << 22
"""Bytes that must hold a line end, so that no line, and no cell, is more than twice as long: a cell takes forty times its size as words."""
csv.field_size_limit(2 * MAX_LINE)  # else a cell of more than 128 KiB is an error
MAX_RECORD_LINES = 1000
"""Most lines of a quoted CSV record; without a limit one lost quote would swallow the rest of the file."""
MAX_CELLS = 50_000_000
"""Most cells of a JSONL file; objects with different fields each would fill the memory with missing cells."""


@dataclass
class Records:
    """Records of equal length. A cell is text; an empty one is missing."""

    path: Path
    names: list[str]
    """Column names; "1", "2", … where the file has none."""
    cells: list[list[str]]
    lines: list[int] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    """Locations of the records, where they do not come from the lines of one file."""
    _index: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._index = {name: index for index, name in reversed(list(enumerate(self.names)))}

    def location(self, row: int) -> str:
        return self.places[row] if self.places else f"{show(self.path)}:{self.lines[row]}"

    def column(self, name: str, flag: str) -> int:
        """The index of a column, given its name or its number from 1."""
        if name in self._index:
            return self._index[name]
        if name.isdecimal() and len(name) < 9 and 1 <= int(name) <= len(self.names):
            return int(name) - 1
        raise ConfigError(f"{flag}: {show(self.path)} has no column {name!r}{registry.nearest(name, self.names)}")

    def select(self, rows: list[int]) -> Records:
        return Records(self.path, self.names, [self.cells[row] for row in rows], [self.lines[row] for row in rows])


def read_records(
    path: str,
    problems: Problems,
    header: Header = "detect",
    separator: Separator = "detect",
    header_name: str = "",
    join_lists: str = "",
) -> Records:
    """The records of a file. A first line with the cell `header_name` is a header. join_lists: what is put between the members of a list of
    texts in JSONL, which is else taken as missing."""
    file = locate(path)
    data = read_bytes(file)
    refuse_long_lines(data, file)
    lines = unix_lines(decode(data, file, problems)).split("\n")
    del data
    if not lines[-1]:
        lines.pop()
    first = next((line for line in lines if line.strip()), None)
    if first is None:
        raise DataError(f"{show(file)}: is empty; it should hold one record per line")
    suffix = file.name.removesuffix(".gz").rpartition(".")[2].lower()
    if suffix in ("jsonl", "ndjson", "json") or (separator == "detect" and suffix not in ("tsv", "csv") and first.lstrip().startswith("{")):
        return _json_records(file, lines, problems, join_lists)
    candidates = {"tsv": "\t", "csv": ",;\t"}.get(suffix, "\t,;")
    delimiter = SEPARATORS[separator] if separator != "detect" else max(candidates, key=first.count)
    return _delimited_records(file, lines, delimiter, header, header_name, problems)


def refuse_long_lines(data: bytes, path: Path) -> None:
    """Refuse a file with a line far longer than a record."""
    for first in range(0, len(data) - MAX_LINE + 1, MAX_LINE):
        if data.find(b"\n", first, first + MAX_LINE) < 0 and data.find(b"\r", first, first + MAX_LINE) < 0:
            raise DataError(
                f"{show(path)}: a line of it is longer than {MAX_LINE:,} bytes (from byte {first:,} on), the most that is accepted in a "
                "table; cut long texts into several rows, or train on them as text"
            )


def number(cell: str) -> float | None:
    """The cell as a finite number of reasonable size, or None."""
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if abs(value) <= 1e30 else None  # also refuses nan


def _delimited_records(path: Path, lines: list[str], delimiter: str, header: Header, header_name: str, problems: Problems) -> Records:
    split = _split_tabs(lines) if delimiter == "\t" else _split_quoted(path, lines, delimiter, problems)
    records = [(line, cells) for line, cells in split if _is_not_empty(path, line, cells, problems)]
    if not records:
        expected = "one per line, its cells separated by tabs or commas, is expected"
        raise DataError(f"{show(path)}: holds no usable record; {expected}{problems.summary()}")
    has_header = header == "yes" or (header == "detect" and _detect_header(path, records, header_name, problems))
    width = len(records[0][1]) if has_header else Counter(len(cells) for _, cells in records).most_common(1)[0][0]
    words = records[0][1] if has_header else [""] * width
    names: dict[str, int] = {}
    for column_number, word in enumerate(map(str.strip, words), 1):
        if word and word in names:
            location = f"{show(path)} (column {column_number}, {word[:40]!r})"
            problems.add("columns with the name of another, called by their number", location)
        names[word if word and word not in names else unused(str(column_number), names)] = column_number
    body = records[1:] if has_header else records
    for line, cells in body:
        if len(cells) != width:
            problems.add(f"rows that do not have {width} cells, left out", f"{show(path)}:{line} ({len(cells)})")
    body = [(line, cells) for line, cells in body if len(cells) == width]
    return Records(path, list(names), [cells for _, cells in body], [line for line, _ in body])


def unused(name: str, names: dict[str, int]) -> str:
    """The name, with as many primes behind it as make it unlike the others."""
    while name in names:
        name += "'"
    return name


def _split_tabs(lines: list[str]) -> Iterator[tuple[int, list[str]]]:
    return ((line_number, line.split("\t")) for line_number, line in enumerate(lines, 1))


def _split_quoted(path: Path, lines: list[str], delimiter: str, problems: Problems) -> Iterator[tuple[int, list[str]]]:
    """Cells of each record with the line it starts on; of a malformed record only the first line is left out."""
    line_number = 0
    while line_number < len(lines):
        start, line_number = line_number, line_number + 1
        if '"' not in lines[start]:
            yield start + 1, lines[start].split(delimiter)
            continue
        window = range(start, min(start + MAX_RECORD_LINES, len(lines)))
        reader = csv.reader((lines[i] + "\n" for i in window), delimiter=delimiter, strict=True)
        try:
            cells = next(reader)
        except (csv.Error, StopIteration) as error:
            problems.add("rows with misplaced quotes, left out", f"{show(path)}:{start + 1} ({error})")
            continue
        line_number = start + reader.line_num
        yield start + 1, cells


def _is_not_empty(path: Path, line: int, cells: list[str], problems: Problems) -> bool:
    if any(cell.strip() for cell in cells):
        return True
    problems.add("empty rows, left out", f"{show(path)}:{line}")
    return False


def _detect_header(path: Path, records: list[tuple[int, list[str]]], header_name: str, problems: Problems) -> bool:
    cells = [record for _, record in records]
    if looks_like_header(cells, header_name):
        return True
    if last_header_cell_is_unique(cells):
        message = "first rows taken for a header, as their last cell occurs nowhere else; say --data.header no if it is data"
        problems.add(message, f"{show(path)}:{records[0][0]}")
        return True
    return False


def looks_like_header(records: list[list[str]], header_name: str) -> bool:
    """Whether the first record is a header: it has a usual column name, or it alone has no number in a numeric column."""
    words = [cell.strip() for cell in records[0]]
    if (header_name and header_name in words) or COLUMN_NAMES & {word.lower() for word, times in Counter(words).items() if times == 1}:
        return True
    if len(set(words)) < len(words) or not all(words[1:]) or any(number(word) is not None for word in words):
        return False
    rest = records[1:200]
    columns = ([record[i] for record in rest if len(record) > i and record[i].strip()] for i in range(len(words)))
    return any(column and all(number(cell) is not None for cell in column) for column in columns)


def last_header_cell_is_unique(records: list[list[str]]) -> bool:
    """Whether every last cell but that of the first record occurs several times, as classes do and a column name does not."""
    last = Counter(record[-1].strip() for record in records[1:])
    return len(records) > 8 and records[0][-1].strip() not in last and min(last.values()) > 1


def _json_records(path: Path, lines: list[str], problems: Problems, join_lists: str) -> Records:
    parsed: list[tuple[int, dict[str, Any]]] = []
    for line_number, line in enumerate(lines, 1):
        if not line.strip():
            problems.add("empty rows, left out", f"{show(path)}:{line_number}")
        elif (record := _json_record(path, line_number, line, problems)) is not None:
            parsed.append((line_number, record))
    if not parsed:
        expected = 'one JSON object per line, as {"text": "…", "label": "…"}, is expected'
        raise DataError(f"{show(path)}: holds no usable record; {expected}{problems.summary()}")
    names = list(dict.fromkeys(name for _, record in parsed for name in record))
    if len(names) * len(parsed) > MAX_CELLS:
        raise DataError(
            f"{show(path)}: its {len(parsed)} objects have {len(names)} different field names; the same few are expected in each"
        )
    cells = [[_json_cell(path, line, record.get(name), problems, join_lists) for name in names] for line, record in parsed]
    return Records(path, names, cells, [line_number for line_number, _ in parsed])


def _json_record(path: Path, line_number: int, line: str, problems: Problems) -> dict[str, Any] | None:
    """The object of a line; a list becomes an object with the fields 1, 2, …."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        problems.add("rows that are not JSON, left out", f"{show(path)}:{line_number} ({str(error)[:80]})")
        return None
    if isinstance(value, list):
        value = {str(number): item for number, item in enumerate(value, 1)}
    if isinstance(value, dict) and value:
        return {well_formed(name): item for name, item in value.items()}
    problems.add("rows that are not JSON objects, left out", f"{show(path)}:{line_number} ({line.strip()[:40]!r})")
    return None


def _json_cell(path: Path, line_number: int, value: Any, problems: Problems, join_lists: str = "") -> str:
    if join_lists and isinstance(value, list) and all(isinstance(item, str) for item in value):
        value = f"{join_lists} ".join(item.replace(join_lists, ",") for item in value)
    if isinstance(value, str):
        text = well_formed(value)
        if text != value:
            problems.add("halves of surrogate pairs, replaced by U+FFFD", f"{show(path)}:{line_number}")
        return text
    if isinstance(value, (dict, list)):
        problems.add("nested JSON values, taken as missing", f"{show(path)}:{line_number}")
    return "" if value is None or isinstance(value, (dict, list)) else str(value)
