"""Records of TSV, CSV and JSONL files, each with its line; those that cannot be used are counted and named.

TSV has no quoting. CSV is RFC 4180, with commas or semicolons; a record may run over several lines. JSONL is one object, or
one list, per line.
"""

from __future__ import annotations

import csv
import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from weft.core import registry
from weft.core.errors import ConfigError, DataError
from weft.data.base import Problems
from weft.data.io.files import decode, locate, read_bytes, show, unix_lines, well_formed

csv.field_size_limit(sys.maxsize)  # else a cell of more than 128 KiB is an error

Header = Literal["detect", "yes", "no"]
Separator = Literal["detect", "tab", "comma", "semicolon"]
SIGNS = {"tab": "\t", "comma": ",", "semicolon": ";"}
COLUMN_NAMES = {"label", "class", "target", "category", "text", "sentence", "source", "id", "input", "output", "prompt", "completion"}
"""Words that only the first line of a table has, as far as one can tell."""
LONGEST_RECORD = 1000
"""Lines a quoted CSV cell may run over; without a limit one lost quote would swallow the rest of the file."""
LARGEST_TABLE = 50_000_000
"""Cells of a JSONL file; objects that each bring names of their own would fill the memory with missing ones."""


@dataclass
class Rows:
    """Records of equal length. A cell is text; an empty one is missing."""

    path: Path
    names: list[str]
    """Of the columns; "1", "2", … where the file does not name them."""
    cells: list[list[str]]
    lines: list[int]

    def place(self, row: int) -> str:
        return f"{show(self.path)}:{self.lines[row]}"

    def column(self, name: str, flag: str) -> int:
        """The place of a column, given its name or its number from 1."""
        if name in self.names:
            return self.names.index(name)
        if name.isdecimal() and len(name) < 9 and 1 <= int(name) <= len(self.names):
            return int(name) - 1
        raise ConfigError(f"{flag}: {show(self.path)} has no column {name!r}{registry.nearest(name, self.names)}")

    def select(self, kept: list[int]) -> Rows:
        return Rows(self.path, self.names, [self.cells[row] for row in kept], [self.lines[row] for row in kept])


def read_rows(path: str, problems: Problems, header: Header = "detect", separator: Separator = "detect", named: str = "") -> Rows:
    """The records of a file. A first line that holds the column name `named` is a header."""
    place = locate(path)
    text = unix_lines(decode(read_bytes(place), place, problems))
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    first = next((line for line in lines if line.strip()), None)
    if first is None:
        raise DataError(f"{show(place)}: is empty; it should hold one record per line")
    kind = place.name.removesuffix(".gz").rpartition(".")[2].lower()
    if kind in ("jsonl", "ndjson", "json") or (separator == "detect" and kind not in ("tsv", "csv") and first.lstrip().startswith("{")):
        return _json_rows(place, lines, problems)
    usual = {"tsv": "\t", "csv": ",;\t"}.get(kind, "\t,;")
    sign = SIGNS[separator] if separator != "detect" else max(usual, key=first.count)
    return _plain_rows(place, lines, sign, header, named, problems)


def number(cell: str) -> float | None:
    """The cell as a finite number of reasonable size, or None."""
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if abs(value) <= 1e30 else None  # also refuses nan


def _plain_rows(place: Path, lines: list[str], sign: str, header: Header, named: str, problems: Problems) -> Rows:
    split = _split_tabs(lines) if sign == "\t" else _split_quoted(place, lines, sign, problems)
    records = [(line, cells) for line, cells in split if _usable(place, line, cells, problems)]
    if not records:
        expected = "one per line, its cells separated by tabs or commas, is expected"
        raise DataError(f"{show(place)}: holds no usable record; {expected}{problems.told()}")
    has_header = header == "yes" or (header == "detect" and _detect_header(place, records, named, problems))
    width = len(records[0][1]) if has_header else Counter(len(cells) for _, cells in records).most_common(1)[0][0]
    words = records[0][1] if has_header else [""] * width
    names: list[str] = []
    for position, word in enumerate(map(str.strip, words), 1):
        if word and word in names:
            problems.add("columns whose name is taken, called by their number", f"{show(place)} (column {position}, {word[:40]!r})")
        names.append(word if word and word not in names else str(position))
    body = records[1:] if has_header else records
    for line, cells in body:
        if len(cells) != width:
            problems.add(f"rows that do not have {width} cells, left out", f"{show(place)}:{line} ({len(cells)})")
    body = [(line, cells) for line, cells in body if len(cells) == width]
    return Rows(place, names, [cells for _, cells in body], [line for line, _ in body])


def _split_tabs(lines: list[str]) -> Iterator[tuple[int, list[str]]]:
    return ((position, line.split("\t")) for position, line in enumerate(lines, 1))


def _split_quoted(place: Path, lines: list[str], sign: str, problems: Problems) -> Iterator[tuple[int, list[str]]]:
    """Cells of each record with the line it starts on; a record that breaks the rules costs its first line only."""
    position = 0
    while position < len(lines):
        start, position = position, position + 1
        if '"' not in lines[start]:
            yield start + 1, lines[start].split(sign)
            continue
        window = range(start, min(start + LONGEST_RECORD, len(lines)))
        reader = csv.reader((lines[i] + "\n" for i in window), delimiter=sign, strict=True)
        try:
            cells = next(reader)
        except (csv.Error, StopIteration) as error:
            problems.add("rows with misplaced quotes, left out", f"{show(place)}:{start + 1} ({error})")
            continue
        position = start + reader.line_num
        yield start + 1, cells


def _usable(place: Path, line: int, cells: list[str], problems: Problems) -> bool:
    if any(cell.strip() for cell in cells):
        return True
    problems.add("empty rows, left out", f"{show(place)}:{line}")
    return False


def _detect_header(place: Path, records: list[tuple[int, list[str]]], named: str, problems: Problems) -> bool:
    cells = [record for _, record in records]
    if looks_like_header(cells, named):
        return True
    if stands_alone(cells):
        note = "first rows taken for a header, their last cell being like no other; say --data.header no if it is data"
        problems.add(note, f"{show(place)}:{records[0][0]}")
        return True
    return False


def looks_like_header(records: list[list[str]], named: str) -> bool:
    """Whether the first record names the columns: by a known name, or because it alone has no number in a column of numbers."""
    words = [cell.strip() for cell in records[0]]
    if (named and named in words) or COLUMN_NAMES & {word.lower() for word in words if words.count(word) == 1}:
        return True
    if len(set(words)) < len(words) or not all(words[1:]) or any(number(word) is not None for word in words):
        return False
    rest = records[1:200]
    columns = ([record[i] for record in rest if len(record) > i and record[i].strip()] for i in range(len(words)))
    return any(column and all(number(cell) is not None for cell in column) for column in columns)


def stands_alone(records: list[list[str]]) -> bool:
    """Whether every last cell but the first one's occurs several times, as classes do and the name of their column does not."""
    last = Counter(record[-1].strip() for record in records[1:])
    return len(records) > 8 and records[0][-1].strip() not in last and min(last.values()) > 1


def _json_rows(place: Path, lines: list[str], problems: Problems) -> Rows:
    found: list[tuple[int, dict[str, Any]]] = []
    for position, line in enumerate(lines, 1):
        if not line.strip():
            problems.add("empty rows, left out", f"{show(place)}:{position}")
        elif (record := _json_record(place, position, line, problems)) is not None:
            found.append((position, record))
    if not found:
        expected = 'one JSON object per line, as {"text": "…", "label": "…"}, is expected'
        raise DataError(f"{show(place)}: holds no usable record; {expected}{problems.told()}")
    names = list(dict.fromkeys(name for _, record in found for name in record))
    if len(names) * len(found) > LARGEST_TABLE:
        raise DataError(
            f"{show(place)}: its {len(found)} objects have {len(names)} different names of fields; the same few are expected in each"
        )
    cells = [[_json_cell(place, position, record.get(name), problems) for name in names] for position, record in found]
    return Rows(place, names, cells, [position for position, _ in found])


def _json_record(place: Path, position: int, line: str, problems: Problems) -> dict[str, Any] | None:
    """The object of a line; a list is an object whose names are 1, 2, …."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        problems.add("rows that are not JSON, left out", f"{show(place)}:{position} ({str(error)[:80]})")
        return None
    if isinstance(value, list):
        value = {str(number): item for number, item in enumerate(value, 1)}
    if isinstance(value, dict) and value:
        return {well_formed(name): item for name, item in value.items()}
    problems.add("rows that are not JSON objects, left out", f"{show(place)}:{position} ({line.strip()[:40]!r})")
    return None


def _json_cell(place: Path, position: int, value: Any, problems: Problems) -> str:
    if isinstance(value, str):
        text = well_formed(value)
        if text != value:
            problems.add("halves of surrogate pairs, replaced by U+FFFD", f"{show(place)}:{position}")
        return text
    if isinstance(value, (dict, list)):
        problems.add("nested JSON values, taken as missing", f"{show(place)}:{position}")
    return "" if value is None or isinstance(value, (dict, list)) else str(value)
