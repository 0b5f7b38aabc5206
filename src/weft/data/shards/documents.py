"""The documents of a chunk of a text, JSONL or parquet file; unusable ones are counted, the first few listed with their line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from weft.core.errors import require
from weft.data.io.files import reason as error_reason
from weft.data.io.files import well_formed
from weft.data.io.text import REPLACED
from weft.data.problems import LISTED
from weft.data.shards.byte_blocks import blocks
from weft.data.shards.input_chunks import READ_ERRORS, DocumentBoundary, InputChunk, ReadOptions, document_boundary

BUFFER = 1 << 20
"""Read buffer of a parquet file in bytes."""


class ChunkProblems:
    """Problems of a chunk: of each kind the count, and the first few as (line, detail)."""

    def __init__(self) -> None:
        self.counts: dict[str, tuple[int, list[tuple[int, str]]]] = {}
        self.lines = 0
        """Lines of the chunk before the current block."""

    def add(self, reason: str, line: int, detail: str = "") -> None:
        number, listed = self.counts.get(reason, (0, []))
        self.counts[reason] = number + 1, [*listed, (line, detail)] if len(listed) < LISTED else listed


class TextLocation:
    """The location of a document in a text file; its line is counted only for a problem."""

    def __init__(self, block: bytes, start: int, problems: ChunkProblems):
        self.block, self.start, self.problems, self.first_line = block, start, problems, problems.lines

    def note(self, reason: str, detail: str = "") -> None:
        number, _ = self.problems.counts.get(reason, (0, []))
        line = self.first_line + self.block.count(b"\n", 0, self.start) + 1 if number < LISTED else 0
        self.problems.add(reason, line, detail)


class ParquetLocation(NamedTuple):
    """The location of a document in a parquet file."""

    number: int
    problems: ChunkProblems

    def note(self, reason: str, detail: str = "") -> None:
        self.problems.add(reason, self.number, detail)


class Document(NamedTuple):
    text: str
    data: bytes
    """The same in UTF-8."""
    location: TextLocation | ParquetLocation


def read_documents(chunk: InputChunk, options: ReadOptions, problems: ChunkProblems) -> Iterator[Document]:
    """The documents of a chunk."""
    any_document = False
    try:
        for document in (
            parquet_documents(chunk, options, problems) if chunk.kind == "parquet" else text_documents(chunk, options, problems)
        ):
            any_document = True
            yield document
    except READ_ERRORS as error:
        problems.add("files that cannot be read to their end", problems.lines + 1, error_reason(error))
    if chunk.stop is None and not any_document and not problems.counts:
        problems.add("files without a document", 1)


def text_documents(chunk: InputChunk, options: ReadOptions, problems: ChunkProblems) -> Iterator[Document]:
    """Documents of a text or JSONL file."""
    boundary, jsonl = document_boundary(chunk.kind, options), chunk.kind == "jsonl"
    too_long = (
        f"documents longer than about {options.piece_bytes:,} bytes, cut"
        if not jsonl
        else f"rows longer than {boundary.max_bytes:,} bytes, left out"
    )
    for block, cut in blocks(chunk, boundary, options.piece_bytes):
        for start, end in split_block(block, boundary):
            line = TextLocation(block, start, problems)
            if jsonl and end - start > boundary.max_bytes:
                line.note(too_long)
                continue
            document = jsonl_document(block[start:end], options.field, line) if jsonl else decode_document(block[start:end], line)
            if document and document.text.strip():
                yield document
            elif document and (jsonl or options.separator or options.split == "lines"):
                line.note("empty documents, left out")
        problems.lines += block.count(b"\n")
        if cut:
            problems.add(too_long, problems.lines + 1)
            problems.lines += jsonl  # the row that is left out had a line end as well


def split_block(block: bytes, boundary: DocumentBoundary) -> Iterator[tuple[int, int]]:
    """The start and end of each document of a block; no document follows a separator at its end."""
    start = 0
    for separator in boundary.separator.finditer(block) if boundary.separator else ():
        yield start, separator.start() - block.endswith(b"\r\n", start, separator.start() + 1)  # a line may end in two bytes
        start = separator.end()
    if start < len(block):
        yield start, len(block)


def decode_document(data: bytes, location: TextLocation | ParquetLocation) -> Document | None:
    """A document from bytes; a little invalid UTF-8 becomes U+FFFD."""
    try:
        return Document(data.decode(), data, location)
    except UnicodeDecodeError as error:
        text = data.decode(errors="replace")
        if text.count("\ufffd") > max(10, len(text) // REPLACED):
            location.note("documents that are not UTF-8, left out; --encoding names another", f"byte {error.start} of the document")
            return None
        location.note("documents with bytes that are not UTF-8, replaced by U+FFFD", f"byte {error.start} of the document")
        return Document(text, text.encode(), location)


def jsonl_document(data: bytes, field: str, location: TextLocation | ParquetLocation) -> Document | None:
    """The document of a JSONL row."""
    row = decode_document(data, location)
    if not row or not row.text.strip():
        return row
    try:
        record = json.loads(row.text)
    except (ValueError, RecursionError) as error:
        location.note("rows that are not JSON, left out", f"{error_reason(error)[:80]}; {row.text[:40]!r}")
        return None
    if not isinstance(record, dict):
        location.note("rows that are not JSON objects, left out", repr(row.text[:40]))
        return None
    if field not in record:
        location.note(f"rows without the field {field!r}, left out", f"it has {', '.join(map(repr, list(record)[:5]))[:80] or 'none'}")
        return None
    return from_value(record[field], field, location)


def from_value(value: Any, field: str, location: TextLocation | ParquetLocation) -> Document | None:
    """The document of a JSON or parquet value."""
    if isinstance(value, bytes):
        return decode_document(value, location)
    if not isinstance(value, str):
        location.note(f"rows whose {field!r} is not text, left out", type(value).__name__ if value is not None else "null")
        return None
    try:
        return Document(value, value.encode(), location)
    except UnicodeEncodeError:
        location.note("documents with halves of surrogate pairs, replaced by U+FFFD")
        value = well_formed(value)
        return Document(value, value.encode(), location)


def parquet_documents(chunk: InputChunk, options: ReadOptions, problems: ChunkProblems) -> Iterator[Document]:
    arrow = require("pyarrow", "parquet")
    library = require("pyarrow.parquet", "parquet")
    file = library.ParquetFile(chunk.path, pre_buffer=False, buffer_size=BUFFER)  # otherwise a whole row group is buffered
    names, groups = file.schema_arrow.names, list(range(chunk.start, file.num_row_groups if chunk.stop is None else chunk.stop))
    if options.field not in names:
        if not chunk.start:
            problems.add(f"files without the column {options.field!r}", 1, f"it has {', '.join(map(repr, names[:5]))[:80]}")
        return
    number = sum(file.metadata.row_group(group).num_rows for group in range(chunk.start))
    for batch in file.iter_batches(batch_size=256, row_groups=groups, columns=[options.field], use_threads=False):
        column = batch.column(0)
        if arrow.types.is_string(column.type) or arrow.types.is_large_string(column.type):
            column = column.cast(arrow.large_binary())  # so that invalid UTF-8 affects its own row only
        for value in column.to_pylist():
            number += 1
            document = from_value(value, options.field, ParquetLocation(number, problems))
            if document and document.text.strip():
                yield document
            elif document:
                problems.add("empty documents, left out", number)
