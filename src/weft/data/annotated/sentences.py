"""Sentences whose words have tags, from a file or from all files of a zip archive.

Two layouts: a word and its tag on each line, with a blank line after each sentence (CoNLL; of more columns the first and the
last count); or a sentence on each line, each word with a slash and its tag behind it (Brown corpus).
"""

from __future__ import annotations

import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from weft.core.errors import DataError
from weft.data.base import Problems
from weft.data.io.files import decode, locate, read_bytes, reason, show, unix_lines

Layout = Literal["detect", "lines", "slashes"]
LARGEST = 1 << 30
"""Bytes that an archive may hold."""
BETWEEN_DOCUMENTS = "-DOCSTART-"


class Sentence(NamedTuple):
    words: tuple[str, ...]
    tags: tuple[str, ...]
    place: str


class Part(NamedTuple):
    """A text with the name by which messages call it."""

    name: str
    lines: list[str]


def read_sentences(path: str, layout: Layout, problems: Problems) -> list[Sentence]:
    """The sentences of a file, or of all files of an archive that have the layout of most."""
    place = locate(path)
    parts = list(_members(place, problems)) if place.suffix.lower() == ".zip" else [_part(show(place), read_bytes(place), place, problems)]
    kinds = [kind_of(part.lines) for part in parts]
    wanted = layout if layout != "detect" else max(Counter(filter(None, kinds)).items(), key=lambda item: item[1], default=("lines", 0))[0]
    found: list[Sentence] = []
    for part, kind in zip(parts, kinds, strict=True):
        if len(parts) > 1 and kind != wanted:
            problems.add("files of an archive that are of another layout, not read", part.name)
        else:
            found += _by_slashes(part, problems) if wanted == "slashes" else _by_lines(part, problems)
    if not found:
        raise DataError(f"{show(place)}: holds no word with a tag; a word, a tab and its tag on each line, or word/tag, is expected")
    return found


def kind_of(lines: list[str]) -> str:
    """The layout that the first line with something on it has; "" where there is none."""
    first = next((line for line in lines if line.strip()), "")
    if not first:
        return ""
    return "slashes" if "\t" not in first.strip() and all("/" in piece[1:-1] for piece in first.split()) else "lines"


def _members(place: Path, problems: Problems) -> Iterator[Part]:
    try:
        with zipfile.ZipFile(place) as archive:
            entries = [entry for entry in archive.infolist() if not entry.is_dir()]
            if sum(entry.file_size for entry in entries) > LARGEST:
                raise DataError(f"{show(place)}: holds more than {LARGEST >> 30} GiB; unpack it and name the files")
            for entry in sorted(entries, key=lambda entry: entry.filename):
                yield _part(show(f"{place}/{entry.filename}"), archive.read(entry), place, problems)
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError) as error:
        raise DataError(f"{show(place)}: cannot be read as a zip archive ({reason(error)})") from error


def _part(name: str, data: bytes, place: Path, problems: Problems) -> Part:
    return Part(name, unix_lines(decode(data, place, problems)).split("\n"))


def _by_lines(part: Part, problems: Problems) -> Iterator[Sentence]:
    words: list[tuple[str, str]] = []
    begin = 1
    for number, line in enumerate([*part.lines, ""], 1):
        cells = [cell.strip() for cell in (line.split("\t") if "\t" in line.strip() else line.split())]
        if not line.strip():
            if words:
                yield _sentence(words, f"{part.name}:{begin}")
            words = []
        elif cells[0] == BETWEEN_DOCUMENTS:
            problems.add(f"lines with {BETWEEN_DOCUMENTS}, left out", f"{part.name}:{number}")
        elif len(cells) < 2 or not cells[0] or not cells[-1]:
            problems.add("lines without a word and its tag, left out", f"{part.name}:{number}")
        else:
            begin = begin if words else number
            words.append((cells[0], cells[-1]))


def _by_slashes(part: Part, problems: Problems) -> Iterator[Sentence]:
    for number, line in enumerate(part.lines, 1):
        words = []
        for piece in line.split():
            word, _, tag = piece.rpartition("/")
            if word and tag:
                words.append((word, tag))
            else:
                problems.add("words without a tag, left out", f"{part.name}:{number} ({show(piece[:40])})")
        if words:
            yield _sentence(words, f"{part.name}:{number}")


def _sentence(words: list[tuple[str, str]], place: str) -> Sentence:
    return Sentence(tuple(word for word, _ in words), tuple(tag for _, tag in words), place)
