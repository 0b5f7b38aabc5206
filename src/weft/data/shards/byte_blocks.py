"""A chunk of a text or JSONL file as blocks of bytes that end at a document boundary."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from typing import IO

from weft.data.io.encodings import UTF8_MARK
from weft.data.shards.input_chunks import DocumentBoundary, InputChunk, last_character_start, open_input

ReadBytes = Callable[[int], bytes]
"""Reads the next bytes, at most so many; empty at the end."""


def blocks(chunk: InputChunk, boundary: DocumentBoundary, size: int) -> Iterator[tuple[bytes, bool]]:
    """Blocks that end at a document boundary, and whether a document was cut; a JSONL row that is too long gives no bytes and True."""
    split = jsonl_blocks if chunk.kind == "jsonl" else text_blocks
    with open_input(chunk.path) as file:
        if chunk.stop is None:
            yield from split(utf8_reader(file, chunk.encoding), boundary, size)
            return
        file.seek(chunk.start)
        if not chunk.start and file.read(len(UTF8_MARK)) != UTF8_MARK:
            file.seek(0)
        if chunk.kind == "jsonl" and chunk.stop - chunk.start > boundary.max_bytes:
            yield from jsonl_blocks(read_until(file, chunk.stop), boundary, size)
        else:
            yield file.read(chunk.stop - file.tell()), chunk.cut
        if file.tell() < chunk.stop:
            raise EOFError("it has become shorter")


def read_until(file: IO[bytes], stop: int) -> ReadBytes:
    """A reader that stops at an offset of the file."""
    return lambda size: file.read(min(size, stop - file.tell()))


def utf8_reader(file: IO[bytes], encoding: str) -> ReadBytes:
    """A reader of the file as UTF-8, whatever its encoding."""
    if encoding == "utf-8":
        head = file.read(len(UTF8_MARK))
        file.seek(0 if head != UTF8_MARK else len(UTF8_MARK))
        return file.read
    decoder = codecs.getincrementaldecoder(encoding)()

    def read_bytes(size: int) -> bytes:
        data = file.read(max(size, 16))  # at least one whole character
        return decoder.decode(data, not data).encode()

    return read_bytes


def text_blocks(read_bytes: ReadBytes, boundary: DocumentBoundary, size: int) -> Iterator[tuple[bytes, bool]]:
    buffer = b""
    longest = size if boundary.separator is None else size + boundary.max_bytes
    while chunk := read_bytes(size):
        buffer += chunk
        stop = 0
        for match in boundary.separator.finditer(buffer) if boundary.separator else ():
            stop = match.end() if match.end() < len(buffer) else stop
        if stop or len(buffer) >= longest:
            end = stop or buffer.rfind(b"\n") + 1 or last_character_start(buffer)
            yield buffer[:end], not stop
            buffer = buffer[end:]
    if buffer:
        yield buffer, False


def jsonl_blocks(read_bytes: ReadBytes, boundary: DocumentBoundary, size: int) -> Iterator[tuple[bytes, bool]]:
    """As `blocks`, of JSONL: a row that exceeds the buffer is left out."""
    buffer = b""
    while chunk := read_bytes(size):
        buffer += chunk
        if end := buffer.rfind(b"\n") + 1:
            yield buffer[:end], False
            buffer = buffer[end:]
        elif len(buffer) > boundary.max_bytes:
            buffer = skip_line(read_bytes, size)
            yield b"", True
    if buffer:
        yield buffer, False


def skip_line(read_bytes: ReadBytes, size: int) -> bytes:
    """Read to the end of a line; the bytes already read after it, none at the end of the file."""
    while chunk := read_bytes(size):
        if end := chunk.find(b"\n") + 1:
            return chunk[end:]
    return b""
