"""Sentences whose words have tags, from a file or from all files of a zip archive.

Two layouts: a word and its tag on each line, with a blank line after each sentence (CoNLL; of more columns the first and the
last are used); or a sentence on each line, as word/tag (Brown corpus).
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
from weft.data.io.files import check_inflated, locate, read_bytes, reason, show, unix_lines
from weft.data.io.text import decode

Layout = Literal["detect", "lines", "slashes"]
BETWEEN_DOCUMENTS = "-DOCSTART-"


class Sentence(NamedTuple):
    words: tuple[str, ...]
    tags: tuple[str, ...]
    location: str


class TextFile(NamedTuple):
    """The lines of a text file, with its name for messages."""

    name: str
    lines: list[str]


def read_sentences(path: str, layout: Layout, problems: Problems) -> list[Sentence]:
    """The sentences of a file, or of those files of an archive that have its most common layout."""
    source = locate(path)
    files = (
        list(_archive_files(source, problems))
        if source.suffix.lower() == ".zip"
        else [_decode_file(show(source), read_bytes(source), source, problems)]
    )
    layouts = [detect_layout(file.lines) for file in files]
    wanted = (
        layout if layout != "detect" else max(Counter(filter(None, layouts)).items(), key=lambda item: item[1], default=("lines", 0))[0]
    )
    sentences: list[Sentence] = []
    for file, own_layout in zip(files, layouts, strict=True):
        if len(files) > 1 and own_layout != wanted:
            problems.add("files of an archive that are of another layout, not read", file.name)
        else:
            sentences += _read_slashes_layout(file, problems) if wanted == "slashes" else _read_lines_layout(file, problems)
    if not sentences:
        raise DataError(f"{show(source)}: holds no word with a tag; a word, a tab and its tag on each line, or word/tag, is expected")
    return sentences


def detect_layout(lines: list[str]) -> str:
    """The layout of the first line that is not empty; "" where there is none."""
    first = next((line for line in lines if line.strip()), "")
    if not first:
        return ""
    return "slashes" if "\t" not in first.strip() and all("/" in token[1:-1] for token in first.split()) else "lines"


def _archive_files(source: Path, problems: Problems) -> Iterator[TextFile]:
    try:
        with zipfile.ZipFile(source) as archive:
            entries = [entry for entry in archive.infolist() if not entry.is_dir()]
            check_inflated(sum(entry.file_size for entry in entries), source.stat().st_size, source)
            for entry in sorted(entries, key=lambda entry: entry.filename):
                yield _decode_file(show(f"{source}/{entry.filename}"), archive.read(entry), source, problems)
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError) as error:
        raise DataError(f"{show(source)}: cannot be read as a zip archive ({reason(error)})") from error


def _decode_file(name: str, data: bytes, source: Path, problems: Problems) -> TextFile:
    return TextFile(name, unix_lines(decode(data, source, problems)).split("\n"))


def _read_lines_layout(file: TextFile, problems: Problems) -> Iterator[Sentence]:
    words: list[tuple[str, str]] = []
    begin = 1
    for number, line in enumerate([*file.lines, ""], 1):
        cells = [cell.strip() for cell in (line.split("\t") if "\t" in line.strip() else line.split())]
        if not line.strip():
            if words:
                yield _sentence(words, f"{file.name}:{begin}")
            words = []
        elif cells[0] == BETWEEN_DOCUMENTS:
            problems.add(f"lines with {BETWEEN_DOCUMENTS}, left out", f"{file.name}:{number}")
        elif len(cells) < 2 or not cells[0] or not cells[-1]:
            problems.add("lines without a word and its tag, left out", f"{file.name}:{number}")
        else:
            begin = begin if words else number
            words.append((cells[0], cells[-1]))


def _read_slashes_layout(file: TextFile, problems: Problems) -> Iterator[Sentence]:
    for number, line in enumerate(file.lines, 1):
        words = []
        for token in line.split():
            word, _, tag = token.rpartition("/")
            if word and tag:
                words.append((word, tag))
            else:
                problems.add("words without a tag, left out", f"{file.name}:{number} ({show(token[:40])})")
        if words:
            yield _sentence(words, f"{file.name}:{number}")


def _sentence(words: list[tuple[str, str]], location: str) -> Sentence:
    return Sentence(tuple(word for word, _ in words), tuple(tag for _, tag in words), location)
