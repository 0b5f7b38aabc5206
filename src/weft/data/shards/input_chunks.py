"""Files of text, JSONL and parquet split into chunks that can be read independently and with little memory.

A chunk is a byte range between two documents, a row group of a parquet file, or a whole file, which is read as a stream.
"""

from __future__ import annotations

import gzip
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
from weft.data.io.encodings import check_encoding, encoding_of
from weft.data.io.files import locate, show, walk
from weft.data.problems import Problems

JSONL = (".jsonl", ".ndjson", ".json")
SEPARATORS = {"file": None, "blank_lines": rb"\n(?:(?:[ \t\r\f\v]*\n)+|\Z)", "lines": rb"\n"}
"""A pattern with a fixed first byte is searched many times as fast."""
SEARCH_WINDOW = 1 << 16
"""Bytes in which the end of a chunk is searched first."""
HEAD = 1 << 20
"""Bytes at the beginning of a file by which its encoding is detected."""
READ_ERRORS = (OSError, EOFError, zlib.error, ValueError, NotImplementedError)
"""Exceptions that libraries raise on malformed files."""


@dataclass(frozen=True, kw_only=True)
class ReadOptions(Config):
    """How files are split into documents."""

    field: str = "text"
    """Field of JSONL, or column of parquet, that holds the text of a document."""
    split: Literal["file", "blank_lines", "lines"] = "file"
    """Where a text file is split into documents: not at all, at blank lines, or at the end of every line."""
    separator: str = ""
    """Text between two documents of a text file, such as <|endoftext|>; overrides `split`."""
    suffixes: tuple[str, ...] = (".txt", ".md", ".jsonl", ".ndjson", ".parquet", ".gz")
    """Suffixes of the files that are read of a folder; a file named directly may have any."""
    encoding: str = ""
    """Encoding of text and JSONL, as utf-8, utf-16, gb18030, big5, shift_jis or latin-1; by default a byte-order mark or the bytes tell."""
    piece_bytes: int = 1 << 21
    """Bytes that a worker reads at once; longer documents of a text file are cut there, at the end of a line, and rows of JSONL
    that are 16 times as long are left out."""


class InputFile(NamedTuple):
    """An input file."""

    path: str
    size: int
    kind: str
    """text, jsonl or parquet."""
    encoding: str = "utf-8"


class InputChunk(NamedTuple):
    """A part of an input file; `start` and `stop` are bytes, or row groups of parquet. Without `stop`, the whole file as a stream."""

    source: int
    path: str
    kind: str
    start: int
    stop: int | None
    size: int
    """Bytes of the file that it counts for in the progress."""
    last: bool
    """Whether it is the last chunk of the file."""
    cut: bool = False
    """Whether its end cuts a document."""
    encoding: str = "utf-8"


class DocumentBoundary(NamedTuple):
    """The separator of documents, and the bytes after which a document without one is cut or, of JSONL, left out."""

    separator: re.Pattern[bytes] | None
    max_bytes: int


def document_boundary(kind: str, options: ReadOptions) -> DocumentBoundary:
    if kind == "jsonl":
        return DocumentBoundary(re.compile(rb"\n"), 16 * options.piece_bytes)
    separator = re.escape(options.separator.encode()) if options.separator else SEPARATORS[options.split]
    return DocumentBoundary(re.compile(separator), options.piece_bytes) if separator else DocumentBoundary(None, SEARCH_WINDOW)


def find_inputs(inputs: list[str], options: ReadOptions, problems: Problems, out: str | Path = "") -> list[InputFile]:
    """The input files in the order of the arguments; those of a folder sorted by path.

    Files below `out`, the folder of the output, are not input.
    """
    if options.piece_bytes < 1:
        raise ConfigError(f"--piece-bytes must be at least 1, not {options.piece_bytes}")
    detected = Problems(encoding=check_encoding(options.encoding, "--encoding"))
    sources: list[InputFile] = []
    for name in inputs:
        try:
            path = locate(name)
        except DataError as error:
            raise DataError(f"{show(name)}: no such file or folder, here or below WEFT_DATA") from error
        if is_archive(path):
            raise DataError(f"{show(path)}: is an archive; unpack it, and name the folder")
        if out and path.is_dir() and os.path.realpath(path) == os.path.realpath(out):
            continue  # a shell pattern includes it where it lies next to the input
        files = walk(path, options.suffixes, problems, out) if path.is_dir() else [path]
        if not files:
            raise DataError(f"{show(path)}: the folder holds no file that ends in {', '.join(options.suffixes)}; see --suffixes")
        if not all(map(os.path.isfile, files)):
            raise DataError(f"{show(path)}: is not a regular file")
        sources += input_files(files, detected)
    problems.include(detected)
    if not sources and detected.counts:
        raise DataError(f"{', '.join(map(show, inputs))}: no file can be read{detected.summary()}")
    if not sources:
        raise ConfigError(f"{show(out)} is the input itself; use another folder with --out")
    if any(source.kind == "parquet" for source in sources):
        require("pyarrow.parquet", "parquet")
    return sources


def input_files(files: list[Path], problems: Problems) -> list[InputFile]:
    """The files with their encodings; those whose encoding is not clear are counted and left out, and refused where they are alone."""
    sources = []
    for file in files:
        try:
            sources.append(InputFile(str(file), os.path.getsize(file), file_format(file), file_encoding(file, problems)))
        except DataError as error:
            if len(files) == 1:
                raise DataError(str(error).replace("--data.encoding", "--encoding")) from error
            problems.add("files that cannot be read", str(error).replace("--data.encoding", "--encoding"))
    return sources


def file_encoding(file: Path, problems: Problems) -> str:
    """The encoding of a file by its beginning; what cannot be read is left to the reader of its chunks."""
    if file_format(file) == "parquet":
        return "utf-8"
    try:
        with open_input(str(file)) as stream:
            return encoding_of(stream.read(HEAD), file, problems, whole=False)
    except READ_ERRORS:
        return "utf-8"


def open_input(path: str) -> IO[bytes]:
    return gzip.open(path, "rb") if path.lower().endswith(".gz") else open(path, "rb")  # type: ignore[return-value]


def file_format(path: Path) -> str:
    name = path.name.lower().removesuffix(".gz")
    return "jsonl" if name.endswith(JSONL) else "parquet" if name.endswith(".parquet") else "text"


def input_chunks(number: int, source: InputFile, options: ReadOptions, start: int) -> Iterator[InputChunk]:
    """The chunks of a file from `start` on, the byte or row group at which one of them begins."""
    whole = InputChunk(number, source.path, source.kind, 0, None, source.size, True, encoding=source.encoding)
    splittable = source.size > options.piece_bytes and not source.path.lower().endswith(".gz")
    splittable = splittable and source.encoding == "utf-8"  # others can only be decoded from the beginning
    if source.kind == "parquet":
        yield from row_groups(whole, start)
    elif splittable and os.access(source.path, os.R_OK):
        yield from byte_ranges(whole, options, start)
    else:
        yield whole


def row_groups(whole: InputChunk, start: int) -> Iterator[InputChunk]:
    library = require("pyarrow.parquet", "parquet")
    try:
        number = library.ParquetFile(whole.path).num_row_groups
    except READ_ERRORS:
        number = 0  # the reader of the chunk reports the error
    for group in range(start, number):
        yield whole._replace(start=group, stop=group + 1, size=whole.size // number, last=group == number - 1)
    if not number:
        yield whole


def byte_ranges(whole: InputChunk, options: ReadOptions, start: int) -> Iterator[InputChunk]:
    boundary = document_boundary(whole.kind, options)
    with open(whole.path, "rb") as file:
        while start < whole.size:
            offset = start + options.piece_bytes
            jsonl = whole.kind == "jsonl"
            stop, cut = (next_line(file, offset, whole.size), False) if jsonl else next_document(file, offset, whole.size, boundary)
            yield whole._replace(start=start, stop=stop, size=stop - start, last=stop == whole.size, cut=cut)
            start = stop


def next_line(file: IO[bytes], offset: int, size: int) -> int:
    """The offset of the first line that begins after an offset, however far away."""
    file.seek(offset)
    while offset < size and (window := file.read(SEARCH_WINDOW)):
        if length := window.find(b"\n") + 1:
            return min(offset + length, size)
        offset += len(window)
    return size


def next_document(file: IO[bytes], offset: int, size: int, boundary: DocumentBoundary) -> tuple[int, bool]:
    """The offset of the first document after an offset, or of a line where none begins for long; and whether that cuts a document."""
    reach = min(SEARCH_WINDOW, boundary.max_bytes)
    while offset < size:
        file.seek(offset)
        window = file.read(reach)
        at_end = offset + len(window) >= size
        match = boundary.separator.search(window) if boundary.separator else None
        if match and (at_end or match.end() < len(window)):  # a match at the end of the window may continue after it
            return offset + match.end(), False
        if at_end or not window:
            break
        if reach >= boundary.max_bytes:
            return offset + (window.find(b"\n") + 1 or last_character_start(window)), True
        reach = min(4 * reach, boundary.max_bytes)
    return size, False


def last_character_start(data: bytes) -> int:
    """The offset in UTF-8 at which the last character begins."""
    for back in range(1, min(4, len(data))):
        if data[-back] & 0xC0 != 0x80:
            return len(data) - back
    return len(data)
