"""Documents of a piece of a text, JSONL or parquet file; what cannot be used is counted, and the first few named with their line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from weft.core.errors import require
from weft.data.io.byte_blocks import blocks
from weft.data.io.files import reason, well_formed
from weft.data.problems import NAMED
from weft.data.shards.inputs import BROKEN, Piece, Reading, Rule, rule_of

BUFFER = 1 << 20
"""Bytes of a parquet file that are read at once."""


class Flaws:
    """What was wrong with a piece: of each kind how often, and the first few as (line, detail)."""

    def __init__(self) -> None:
        self.found: dict[str, tuple[int, list[tuple[int, str]]]] = {}
        self.lines = 0
        """Of the piece, those before the part that is being read."""

    def add(self, what: str, line: int, detail: str = "") -> None:
        number, named = self.found.get(what, (0, []))
        self.found[what] = number + 1, [*named, (line, detail)] if len(named) < NAMED else named


class Line:
    """Where a document stands, counted only when somebody asks."""

    def __init__(self, block: bytes, begin: int, flaws: Flaws):
        self.block, self.begin, self.flaws, self.before = block, begin, flaws, flaws.lines

    def note(self, what: str, detail: str = "") -> None:
        number, _ = self.flaws.found.get(what, (0, []))
        line = self.before + self.block.count(b"\n", 0, self.begin) + 1 if number < NAMED else 0
        self.flaws.add(what, line, detail)


class Row(NamedTuple):
    """Where a row of a parquet file stands."""

    number: int
    flaws: Flaws

    def note(self, what: str, detail: str = "") -> None:
        self.flaws.add(what, self.number, detail)


class Document(NamedTuple):
    text: str
    data: bytes
    """The same in UTF-8."""
    place: Line | Row


def read(piece: Piece, reading: Reading, flaws: Flaws) -> Iterator[Document]:
    """The documents of a piece."""
    some = False
    try:
        for document in parquet_rows(piece, reading, flaws) if piece.kind == "parquet" else parts(piece, reading, flaws):
            some = True
            yield document
    except BROKEN as error:
        flaws.add("files that cannot be read to their end", flaws.lines + 1, reason(error))
    if piece.stop is None and not some and not flaws.found:
        flaws.add("files without a document", 1)


def parts(piece: Piece, reading: Reading, flaws: Flaws) -> Iterator[Document]:
    """Documents of a text or JSONL file."""
    rule, jsonl = rule_of(piece.kind, reading), piece.kind == "jsonl"
    long = (
        f"documents longer than about {reading.piece_bytes:,} bytes, cut"
        if not jsonl
        else f"rows longer than {rule.reach:,} bytes, left out"
    )
    for block, cut in blocks(piece, rule, reading.piece_bytes):
        for begin, end in between(block, rule):
            line = Line(block, begin, flaws)
            if jsonl and end - begin > rule.reach:
                line.note(long)
                continue
            document = parse(block[begin:end], reading.field, line) if jsonl else decode(block[begin:end], line)
            if document and document.text.strip():
                yield document
            elif document and (jsonl or reading.separator or reading.split == "lines"):
                line.note("empty documents, left out")
        flaws.lines += block.count(b"\n")
        if cut:
            flaws.add(long, flaws.lines + 1)
            flaws.lines += jsonl  # a row that is left out had an end as well


def between(block: bytes, rule: Rule) -> Iterator[tuple[int, int]]:
    """Where each document of a block begins and ends; a separator at its end is followed by none."""
    begin = 0
    for found in rule.between.finditer(block) if rule.between else ():
        yield begin, found.start() - block.endswith(b"\r\n", begin, found.start() + 1)  # a line may end in two bytes
        begin = found.end()
    if begin < len(block):
        yield begin, len(block)


def decode(data: bytes, place: Line | Row) -> Document:
    """A document of bytes; those that are not UTF-8 become U+FFFD."""
    try:
        return Document(data.decode(), data, place)
    except UnicodeDecodeError as error:
        place.note("documents with bytes that are not UTF-8, replaced by U+FFFD", f"byte {error.start} of the document")
        text = data.decode(errors="replace")
        return Document(text, text.encode(), place)


def parse(data: bytes, field: str, place: Line | Row) -> Document | None:
    """The document in a row of JSONL."""
    row = decode(data, place)
    if not row.text.strip():
        return row
    try:
        record = json.loads(row.text)
    except (ValueError, RecursionError) as error:
        place.note("rows that are not JSON, left out", f"{reason(error)[:80]}; {row.text[:40]!r}")
        return None
    if not isinstance(record, dict):
        place.note("rows that are not JSON objects, left out", repr(row.text[:40]))
        return None
    if field not in record:
        place.note(f"rows without the field {field!r}, left out", f"it has {', '.join(map(repr, list(record)[:5]))[:80] or 'none'}")
        return None
    return from_value(record[field], field, place)


def from_value(value: Any, field: str, place: Line | Row) -> Document | None:
    """The document in a cell."""
    if isinstance(value, bytes):
        return decode(value, place)
    if not isinstance(value, str):
        place.note(f"rows whose {field!r} is not text, left out", type(value).__name__ if value is not None else "null")
        return None
    try:
        return Document(value, value.encode(), place)
    except UnicodeEncodeError:
        place.note("documents with halves of surrogate pairs, replaced by U+FFFD")
        value = well_formed(value)
        return Document(value, value.encode(), place)


def parquet_rows(piece: Piece, reading: Reading, flaws: Flaws) -> Iterator[Document]:
    arrow = require("pyarrow", "parquet")
    library = require("pyarrow.parquet", "parquet")
    file = library.ParquetFile(piece.path, pre_buffer=False, buffer_size=BUFFER)  # else a row group is held whole
    names, groups = file.schema_arrow.names, list(range(piece.start, file.num_row_groups if piece.stop is None else piece.stop))
    if reading.field not in names:
        if not piece.start:
            flaws.add(f"files without the column {reading.field!r}", 1, f"it has {', '.join(map(repr, names[:5]))[:80]}")
        return
    number = sum(file.metadata.row_group(group).num_rows for group in range(piece.start))
    for batch in file.iter_batches(batch_size=256, row_groups=groups, columns=[reading.field], use_threads=False):
        column = batch.column(0)
        if arrow.types.is_string(column.type) or arrow.types.is_large_string(column.type):
            column = column.cast(arrow.large_binary())  # so that bad UTF-8 costs its own row only
        for value in column.to_pylist():
            number += 1
            document = from_value(value, reading.field, Row(number, flaws))
            if document and document.text.strip():
                yield document
            elif document:
                flaws.add("empty documents, left out", number)
