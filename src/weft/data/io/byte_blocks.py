"""A piece of a text or JSONL file as blocks of bytes that end behind a document."""

from __future__ import annotations

import codecs
import gzip
from collections.abc import Callable, Iterator
from typing import IO

from weft.data.io.files import MARKS
from weft.data.shards.inputs import Piece, Rule, before_character

BOM = b"\xef\xbb\xbf"
More = Callable[[int], bytes]
"""Gives so many bytes more; none at the end."""


def blocks(piece: Piece, rule: Rule, size: int) -> Iterator[tuple[bytes, bool]]:
    """Parts of a file that end behind a document, and whether one had to be cut; of JSONL, a row that is too long is no bytes and True."""
    stream = rows if piece.kind == "jsonl" else streamed
    with opened(piece.path) as file:
        if piece.stop is None:
            yield from stream(reader(file), rule, size)
            return
        file.seek(piece.start)
        if not piece.start and file.read(len(BOM)) != BOM:
            file.seek(0)
        if piece.kind == "jsonl" and piece.stop - piece.start > rule.reach:
            yield from rows(until(file, piece.stop), rule, size)
        else:
            yield file.read(piece.stop - file.tell()), piece.cut
        if file.tell() < piece.stop:
            raise EOFError("it has become shorter")


def opened(path: str) -> IO[bytes]:
    return gzip.open(path, "rb") if path.lower().endswith(".gz") else open(path, "rb")  # type: ignore[return-value]


def until(file: IO[bytes], stop: int) -> More:
    """What gives the bytes of a file before a place."""
    return lambda size: file.read(min(size, stop - file.tell()))


def reader(file: IO[bytes]) -> More:
    """What gives so many bytes more in UTF-8, whatever the encoding of the file."""
    head = file.read(4)
    file.seek(0)
    encoding = next((name for mark, name in MARKS if head.startswith(mark)), "")
    if not encoding:
        file.read(len(BOM) if head.startswith(BOM) else 0)
        return file.read
    decoder = codecs.getincrementaldecoder(encoding)()

    def more(size: int) -> bytes:
        data = file.read(max(size, 16))  # so that at least a character comes of it
        return decoder.decode(data, not data).encode()

    return more


def streamed(more: More, rule: Rule, size: int) -> Iterator[tuple[bytes, bool]]:
    held = b""
    longest = size if rule.between is None else size + rule.reach
    while chunk := more(size):
        held += chunk
        stop = 0
        for found in rule.between.finditer(held) if rule.between else ():
            stop = found.end() if found.end() < len(held) else stop
        if stop or len(held) >= longest:
            at = stop or held.rfind(b"\n") + 1 or before_character(held)
            yield held[:at], not stop
            held = held[at:]
    if held:
        yield held, False


def rows(more: More, rule: Rule, size: int) -> Iterator[tuple[bytes, bool]]:
    """As `blocks`, of JSONL: of a row that is too long to be held, nothing is kept."""
    held = b""
    while chunk := more(size):
        held += chunk
        if at := held.rfind(b"\n") + 1:
            yield held[:at], False
            held = held[at:]
        elif len(held) > rule.reach:
            held = behind_line(more, size)
            yield b"", True
    if held:
        yield held, False


def behind_line(more: More, size: int) -> bytes:
    """What was read behind the line that is left out; nothing at the end."""
    while chunk := more(size):
        if at := chunk.find(b"\n") + 1:
            return chunk[at:]
    return b""
