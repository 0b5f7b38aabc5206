"""Files of word vectors: word2vec text and binary, GloVe, and fastText's `.vec`.

    text     "V D\n", then on each line a word and D numbers          word2vec -binary 0, fastText .vec, gensim
    binary   "V D\n", then a word, a space, D float32, and in some files a newline     word2vec -binary 1, gensim
    GloVe    the lines of text without the first

What a file is shows its content, not its name. Numbers are read as gensim reads them, to the last bit.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BufferedReader
from itertools import islice
from pathlib import Path

import numpy as np

from weft.core.errors import CheckpointError
from weft.core.untrusted import open_regular, parsing

MOST_WORDS, MOST_DIMENSIONS = 1 << 24, 1 << 16
LONGEST_WORD = 1 << 16
"""Bytes."""
LONGEST_NUMBER = 64
"""Bytes of one in a text."""


@dataclass
class WordVectors:
    """Words in their order, which is mostly that of their frequencies, and a vector for each (V, D) float32."""

    words: list[str]
    vectors: np.ndarray
    repeated: list[str] = field(default_factory=list)
    """Words that the file has twice, of which the first counts."""


def read(path: Path) -> WordVectors:
    """The vectors of a file in any of the formats; a CheckpointError where it is none, or damaged."""
    with parsing(path, CheckpointError, ": holds no word vectors"), open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        header = header_of(file.readline(LONGEST_WORD))
        if header is None:
            file.seek(0)
            return distinct(*text_rows(file, dimensions_of(file), 0))
        words, dimensions = header
        if words * (2 * dimensions + 2) > size:
            raise ValueError(f"its first line tells of {words:,} vectors of {dimensions:,} numbers, which {size:,} bytes cannot hold")
        begin = file.tell()
        line = file.readline(longest(dimensions))
        file.seek(begin)
        if words == 0 or parsed(line, dimensions):
            return distinct(*text_rows(file, dimensions, words))
        if words * (4 * dimensions + 2) > size:
            raise ValueError(f"{words:,} vectors of {dimensions:,} numbers are more than its {size:,} bytes")
        return distinct(*binary_rows(file, begin, words, dimensions))


def header_of(line: bytes) -> tuple[int, int] | None:
    """The numbers of words and dimensions, where a line is a header."""
    parts = line.split()
    if len(parts) != 2 or not all(part.isdigit() and len(part) < 12 for part in parts):
        return None
    words, dimensions = map(int, parts)
    if not (0 < words <= MOST_WORDS and 0 < dimensions <= MOST_DIMENSIONS):
        raise ValueError(f"its first line tells of {words:,} vectors of {dimensions:,} numbers")
    return words, dimensions


def dimensions_of(file: BufferedReader) -> int:
    """The numbers behind the first word of a file without a header."""
    line = file.readline(longest(MOST_DIMENSIONS))
    file.seek(0)
    dimensions = len(line.split()) - 1
    if dimensions < 2 or not parsed(line, dimensions):
        raise ValueError('it begins neither with "V D" nor with a word and its numbers')
    return dimensions


def longest(dimensions: int) -> int:
    return LONGEST_WORD + dimensions * LONGEST_NUMBER


def parsed(line: bytes, dimensions: int) -> tuple[bytes, list[float]] | None:
    """The word of a line and its numbers; None where it holds something else."""
    parts = line.rstrip().rsplit(b" ", dimensions)
    if len(parts) != dimensions + 1 or not parts[0]:
        return None
    try:
        return parts[0], list(map(float, parts[1:]))
    except ValueError:
        return None


def text_rows(file: BufferedReader, dimensions: int, expected: int) -> tuple[list[bytes], np.ndarray]:
    """The words and vectors of the lines; as many as a header says, or all."""
    words: list[bytes] = []
    blocks: list[np.ndarray] = []
    lines = lines_of(file, dimensions)
    while block := list(islice(lines, 4096)):
        rows = np.empty((len(block), dimensions), dtype=np.float32)
        for place, line in enumerate(block):
            if (found := parsed(line, dimensions)) is None:
                raise ValueError(f"line {len(words) + 1 + (expected > 0):,} is not a word and {dimensions:,} numbers")
            words.append(found[0])
            rows[place] = found[1]
        blocks.append(rows)
        if len(words) > MOST_WORDS:
            raise ValueError(f"more than {MOST_WORDS:,} words")
    if expected and len(words) != expected:
        raise ValueError(f"it holds {len(words):,} vectors, and its first line tells of {expected:,}")
    return words, np.concatenate(blocks)


def lines_of(file: BufferedReader, dimensions: int) -> Iterator[bytes]:
    """The lines with something on them."""
    while line := file.readline(longest(dimensions)):
        if line.strip():
            yield line


def binary_rows(file: BufferedReader, begin: int, number: int, dimensions: int) -> tuple[list[bytes], np.ndarray]:
    """Words, each with a space and the bytes of its vector behind it."""
    words: list[bytes] = []
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        vectors = np.empty((number, dimensions), dtype=np.float32)
        position, size = begin, 4 * dimensions
        for place in range(number):
            end = data.find(b" ", position, position + LONGEST_WORD)
            if end < 0 or end + 1 + size > len(data):
                raise ValueError(f"vector {place + 1:,} of {number:,} is not whole")
            words.append(data[position:end].lstrip(b"\n"))
            vectors[place] = np.frombuffer(data[end + 1 : end + 1 + size], dtype="<f4")
            position = end + 1 + size
        if data[position : position + 2].strip() or len(data) > position + 1:
            raise ValueError(f"{len(data) - position:,} bytes are left behind the last vector")
    return words, vectors


def distinct(words: list[bytes], vectors: np.ndarray) -> WordVectors:
    """Without the words that occur again; a ValueError for numbers that are none."""
    if not np.isfinite(vectors).all():
        raise ValueError(f"the vector of {shown(words[int(np.argmin(np.isfinite(vectors).all(1)))])} is not finite")
    names = [word.decode("utf-8", errors="replace") for word in words]
    first = {name: place for place, name in reversed(list(enumerate(names)))}
    if len(first) == len(names):
        return WordVectors(names, vectors)
    kept = [place for place, name in enumerate(names) if first[name] == place]
    repeated = [name for place, name in enumerate(names) if first[name] != place]
    return WordVectors([names[place] for place in kept], vectors[kept], repeated)


def shown(word: bytes) -> str:
    return repr(word[:40].decode("utf-8", errors="replace"))


def write(path: Path, found: WordVectors) -> bytes:
    """The content of a word2vec file: binary where it is called .bin, else text, with the fewest digits that give each number again."""
    if odd := next((word for word in found.words if not word or word.split() != [word]), None):
        raise CheckpointError(f"{path}: {odd!r} holds a space, by which the format tells a word from its numbers")
    rows, values = [f"{len(found.words)} {found.vectors.shape[1]}\n".encode()], found.vectors.astype("<f4")
    for word, vector in zip(found.words, values, strict=True):
        rows.append(word.encode("utf-8", errors="replace") + b" ")
        rows.append(vector.tobytes() if path.suffix == ".bin" else " ".join(map(str, vector)).encode())
        rows.append(b"\n")
    return b"".join(rows)
