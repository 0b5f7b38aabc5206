"""Text of files, folders and archives, read as UTF-8 whatever its encoding: the one reader of every data source.

A large text stays in memory as its UTF-8 bytes, since Python's strings take up to four bytes for each of their characters.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from weft.core.errors import DataError
from weft.data.io.archives import is_archive, read_members
from weft.data.io.encodings import UTF8_MARK, encoding_of, marked, title
from weft.data.io.files import locate, read_bytes, show, walk
from weft.data.io.sniff import refuse_binary
from weft.data.problems import Problems

SUFFIXES = (".txt", ".md", ".gz")
PIECE = 1 << 20
"""Bytes that are decoded at once."""
REPLACED = 100
"""A text of which more than one character in so many has to be replaced is of another encoding."""
Utf8 = bytes | bytearray


class Text:
    """A text in memory as UTF-8, read in pieces that end with a line where there is one."""

    def __init__(self, data: Utf8, start: int = 0, stop: int | None = None):
        self.data, self.start, self.stop = data, start, len(data) if stop is None else stop

    def __iter__(self) -> Iterator[str]:
        view, start = memoryview(self.data), self.start
        while start < self.stop:
            stop = self._piece_end(start)
            yield str(view[start:stop], "utf-8", "surrogateescape")
            start = stop

    def __str__(self) -> str:
        return "".join(self)

    def __bool__(self) -> bool:
        return self.start < self.stop

    @property
    def size(self) -> int:
        """Bytes of UTF-8."""
        return self.stop - self.start

    @property
    def characters(self) -> int:
        return sum(int((piece & 0xC0 != 0x80).sum()) for piece in self._blocks())

    def array(self) -> np.ndarray:
        """The bytes (N,) as uint8, a view."""
        return np.frombuffer(self.data, np.uint8, self.size, self.start)

    def split(self, share: float) -> tuple[Text, Text]:
        """The text before the last `share` of its characters, and these."""
        counts = [int((piece & 0xC0 != 0x80).sum()) for piece in self._blocks()]
        left = int(sum(counts) * (1 - share))
        for number, (count, piece) in enumerate(zip(counts, self._blocks(), strict=True)):
            if left < count:
                offset = int(np.flatnonzero(piece & 0xC0 != 0x80)[left])
                cut = self.start + number * PIECE + offset
                return Text(self.data, self.start, cut), Text(self.data, cut, self.stop)
            left -= count
        return self, Text(self.data, self.stop, self.stop)

    def _blocks(self) -> Iterator[np.ndarray]:
        array = self.array()
        return (array[first : first + PIECE] for first in range(0, len(array), PIECE))

    def _piece_end(self, start: int) -> int:
        stop = start + PIECE
        if stop >= self.stop:
            return self.stop
        if line := self.data.rfind(b"\n", start, stop) + 1:
            return line
        while stop > start + PIECE - 4 and self.data[stop] & 0xC0 == 0x80:
            stop -= 1
        return stop


def decode(data: bytes, path: Path, problems: Problems, exact: bool = False) -> str:
    """The text of a file, whatever its encoding: that of its byte-order mark, the one that
    the user named, or one that is detected for certain.

    Undecodable bytes are counted and become U+FFFD; with `exact` they become surrogates, which encode back to them.
    """
    return to_utf8(data, path, problems, exact).decode(errors="surrogateescape")


def to_utf8(data: bytes, path: Path, problems: Problems, exact: bool = False) -> Utf8:
    """The content of a file as UTF-8 without a byte-order mark, itself where it is that; `exact` keeps bytes that no mark or name tells."""
    if not marked(data):
        refuse_binary(data, path)
    encoding = marked(data) or "utf-8" if exact and not problems.encoding else encoding_of(data, path, problems)
    data = data.removeprefix(UTF8_MARK) if encoding.startswith("utf-8") else data
    if exact and encoding == "utf-8":
        return data
    try:
        return _transcoded(data, encoding)
    except UnicodeDecodeError:
        return _replaced(data, encoding, path, problems)


def _transcoded(data: bytes, encoding: str, errors: str = "strict") -> Utf8:
    """The bytes in UTF-8, themselves where they are that already."""
    decoder, view = codecs.getincrementaldecoder(encoding)(errors), memoryview(data)
    same = encoding == "utf-8" and errors == "strict"
    content = bytearray()
    for first in range(0, max(1, len(data)), PIECE):
        text = decoder.decode(view[first : first + PIECE], first + PIECE >= len(data))
        if not same:
            content += text.encode()
    return data if same else content


def _replaced(data: bytes, encoding: str, path: Path, problems: Problems) -> Utf8:
    """The bytes in UTF-8, with U+FFFD where they have no meaning: counted, and refused where they are many."""
    content, known = (_transcoded(data, encoding, errors) for errors in ("replace", "ignore"))
    replacement = "\ufffd".encode()
    bad = max(1, content.count(replacement) - known.count(replacement))
    try:
        data.decode(encoding)
        start = 0
    except UnicodeDecodeError as error:
        start = error.start
    line = data[:start].decode(encoding, errors="replace").count("\n") + 1
    characters = Text(content).characters
    if bad > max(10, characters // REPLACED):
        raise DataError(
            f"{show(path)}: {bad:,} of its {characters:,} characters are not {title(encoding)}, the first in line {line} (byte {start}); "
            "name its encoding with --data.encoding"
        )
    problems.add(f"bytes that are not {title(encoding)}, replaced by U+FFFD", f"{show(path)}:{line} (byte {start})", bad)
    return content


def unix_bytes(data: Utf8) -> Utf8:
    """UTF-8 with every kind of line end as "\\n"."""
    if b"\r\n" in data:
        data = data.replace(b"\r\n", b"\n")
    return data.replace(b"\r", b"\n") if b"\r" in data else data


def read_whole(path: str, problems: Problems, suffixes: tuple[str, ...] = SUFFIXES, exact: bool = False) -> Text:
    """All texts of a path, joined by line ends.

    Line ends become "\\n" and undecodable bytes U+FFFD, unless `exact`, which keeps every byte.
    """
    parts = read_parts(path, problems, suffixes, exact)
    whole = Text(parts[0] if len(parts) == 1 else b"\n".join(parts))
    if not any(piece.strip() for piece in whole):
        raise DataError(f"{show(path)}: holds no text; name another file or folder with --data.path")
    return whole


def read_text(path: str, problems: Problems, suffixes: tuple[str, ...] = SUFFIXES, exact: bool = False) -> str:
    """As `read_whole`, as a string: for texts that are small."""
    return str(read_whole(path, problems, suffixes, exact))


def read_texts(path: str, problems: Problems, suffixes: tuple[str, ...] = SUFFIXES) -> list[str]:
    """The text of a file, or of every text file of a folder or an archive, sorted by path; paths may be joined by commas."""
    return [part.decode() for part in read_parts(path, problems, suffixes)]


def read_all(files: list[Path], problems: Problems) -> list[str]:
    """The text of each readable file; a single file must be readable."""
    return [part.decode() for part in _read_files(files, problems, False)]


def read_parts(path: str, problems: Problems, suffixes: tuple[str, ...] = SUFFIXES, exact: bool = False) -> list[Utf8]:
    """As `read_texts`, in UTF-8."""
    if "," in path and not os.path.exists(path):
        return [text for part in path.split(",") for text in read_parts(part.strip(), problems, suffixes, exact)]
    source = locate(path)
    if is_archive(source):
        members = read_members(source, suffixes, problems)
        return _clean_all(((name, data) for name, data in members), len(members) == 1, problems, exact)
    files = walk(source, suffixes, problems) if source.is_dir() else [source]
    if not files:
        raise DataError(f"{show(source)}: the folder holds no text file ({', '.join(suffixes)})")
    return _read_files(files, problems, exact)


def _read_files(files: list[Path], problems: Problems, exact: bool) -> list[Utf8]:
    return _clean_all(((file, None) for file in files), len(files) == 1, problems, exact)


def _clean_all(files: Iterable[tuple[Path, bytes | None]], alone: bool, problems: Problems, exact: bool) -> list[Utf8]:
    """The content of each readable file; one that is alone must be readable."""
    texts = []
    for file, data in files:
        try:
            texts.append(_clean(read_bytes(file) if data is None else data, file, problems, exact))
        except DataError as error:
            if alone:
                raise
            problems.add("files that cannot be read", str(error))
    return texts


def _clean(data: bytes, file: Path, problems: Problems, exact: bool) -> Utf8:
    """The content of a file as UTF-8 with Unix line ends, unless `exact`; empty texts and NUL characters are counted."""
    content = to_utf8(data, file, problems, exact)
    if not any(piece.strip() for piece in Text(content)):
        problems.add("empty files", show(file))
    if exact:
        return content
    if (position := content.find(b"\0")) >= 0:
        location = f"{show(file)}:{content.count(10, 0, position) + 1}"
        problems.add("NUL characters, kept; is this text?", location, content.count(0))
    return unix_bytes(content)
