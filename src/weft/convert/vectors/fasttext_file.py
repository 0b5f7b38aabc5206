"""fastText's own files: `.bin`, and `.ftz`, whose tables are quantized (Joulin et al., 2016, arXiv:1612.03651).

Settings, dictionary (words by frequency, then labels), the table of words and hashed n-grams, and that of the output. Product
quantization keeps of each row one byte for every few dimensions, the number of a centroid, and where the norm was taken out one more
for that; the tables are read back as float32. Every size is checked against the file before anything is made of it.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from weft.convert.gguf_file import ValueReader
from weft.core.errors import CheckpointError
from weft.core.untrusted import open_regular, parsing

MAGIC = (793712314).to_bytes(4, "little")
VERSIONS = (11, 12)
SETTINGS = ("dim", "ws", "epoch", "minCount", "neg", "wordNgrams", "loss", "model", "bucket", "minn", "maxn", "lrUpdateRate")
MODELS = {1: "cbow", 2: "skipgram", 3: "supervised"}
LOSSES = {1: "hierarchical_softmax", 2: "negative_sampling", 3: "softmax", 4: "one_vs_all"}
CENTROIDS = 256
MOST_GROWTH = 64
"""Numbers that a quantized table may become for each byte of the file; fastText's own are 4 to 16."""
MOST_DIMENSIONS, LONGEST_NGRAM = 1 << 16, 64


@dataclass
class FastTextFile:
    """What a file holds."""

    settings: dict[str, int]
    model: str
    loss: str
    words: list[bytes]
    labels: list[str]
    counts: list[int]
    """Of the labels."""
    kept: dict[int, int]
    """Buckets of n-grams that a pruned table has, and the place of each behind the words; empty where it has all."""
    pruned: bool
    input: np.ndarray
    """(words + n-grams, D)"""
    output: np.ndarray


def is_fasttext(path: Path) -> bool:
    with parsing(path, CheckpointError), open_regular(path) as file:
        return file.read(4) == MAGIC


def read(path: Path) -> FastTextFile:
    with parsing(path, CheckpointError), open_regular(path) as file:
        data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        reader = ValueReader(data)
        if bytes(reader.take(4)) != MAGIC or (version := reader.number("i")) not in VERSIONS:
            raise ValueError("it does not begin as fastText's of version 11 or 12")
        settings = {name: reader.number("i") for name in SETTINGS}
        reader.take(8)  # t, the threshold of subsampling
        model, loss = checked_settings(settings)
        if version == 11 and model == "supervised":
            settings["maxn"] = 0  # such models had no n-grams of characters, whatever they say
        words, labels, counts, kept, pruned = dictionary(reader)
        quantized = flag(reader)
        table = quantized_matrix(reader, settings["dim"]) if quantized else matrix(reader, settings["dim"])
        output = quantized_matrix(reader, settings["dim"]) if flag(reader) and quantized else matrix(reader, settings["dim"])
        buckets = len(kept) if pruned else settings["bucket"]
        if len(table) != len(words) + buckets:
            raise ValueError(f"its table has {len(table):,} rows for {len(words):,} words and {buckets:,} n-grams")
        if not (np.isfinite(table).all() and np.isfinite(output).all()):
            raise ValueError("its tables hold numbers that are not finite")
        if model == "supervised" and not 1 <= len(labels) == len(output):
            raise ValueError(f"its output has {len(output):,} rows for {len(labels):,} labels")
    return FastTextFile(settings, model, loss, words, labels, counts, kept, pruned, table, output)


def checked_settings(settings: dict[str, int]) -> tuple[str, str]:
    """The model and the loss that the numbers of settings name; a ValueError for numbers out of range."""
    model, loss = MODELS.get(settings["model"]), LOSSES.get(settings["loss"])
    shortest, longest = settings["minn"], settings["maxn"]
    if not model or not loss or not 1 <= settings["dim"] <= MOST_DIMENSIONS or not settings["bucket"] >= 0:
        raise ValueError(f"its settings cannot be ({', '.join(f'{name} {value}' for name, value in settings.items())})")
    if not 0 <= shortest <= LONGEST_NGRAM or not 0 <= longest <= LONGEST_NGRAM or not 0 <= settings["wordNgrams"] <= LONGEST_NGRAM:
        raise ValueError(f"n-grams of {shortest} to {longest} characters and of {settings['wordNgrams']} words are no settings")
    return model, loss


def dictionary(reader: ValueReader) -> tuple[list[bytes], list[str], list[int], dict[int, int], bool]:
    """Words, labels, the counts of the labels, the buckets that are kept, and whether others were pruned."""
    size, words, labels = (reader.number("i") for _ in range(3))
    reader.number("q")
    pruned = reader.number("q")
    if min(size, words, labels) < 0 or size != words + labels or size > (len(reader.data) - reader.position) // 10:
        raise ValueError(f"it tells of {size:,} entries, {words:,} words and {labels:,} labels")
    entries = [(name(reader), reader.number("q"), reader.number("b")) for _ in range(size)]
    if [kind for *_, kind in entries] != [0] * words + [1] * labels:
        raise ValueError("its words and labels are not in their order")
    if pruned > (len(reader.data) - reader.position) // 8:
        raise ValueError(f"it tells of {pruned:,} n-grams that were kept")
    pairs = np.frombuffer(reader.take(8 * max(0, pruned)), dtype="<i4").reshape(-1, 2)
    kept = dict(pairs.tolist())
    if sorted(kept.values()) != list(range(max(0, pruned))) or any(bucket < 0 for bucket in kept):
        raise ValueError("the n-grams that were kept have no places of their own")
    named = [word.decode("utf-8", errors="replace") for word, _, kind in entries if kind]
    return [word for word, _, kind in entries if not kind], named, [count for _, count, kind in entries if kind], kept, pruned >= 0


def name(reader: ValueReader) -> bytes:
    """Bytes up to a zero."""
    left = reader.data[reader.position : reader.position + (1 << 16)]
    end = bytes(left[:256]).find(0)
    end = end if end >= 0 else bytes(left).find(0)
    if end < 0:
        raise ValueError(f"the word at byte {reader.position:,} does not end")
    found = bytes(reader.take(end))
    reader.take(1)
    return found


def flag(reader: ValueReader) -> bool:
    value = reader.number("B")
    if value > 1:
        raise ValueError(f"a flag at byte {reader.position - 1:,} is {value}")
    return bool(value)


def shape(reader: ValueReader, dimensions: int) -> tuple[int, int]:
    rows, columns = reader.number("q"), reader.number("q")
    if rows < 0 or columns != dimensions:
        raise ValueError(f"a table of {rows:,} × {columns:,} numbers is not of vectors with {dimensions:,}")
    return rows, columns


def matrix(reader: ValueReader, dimensions: int) -> np.ndarray:
    rows, columns = shape(reader, dimensions)
    return np.frombuffer(reader.take(4 * rows * columns), dtype="<f4").reshape(rows, columns).copy()


def quantized_matrix(reader: ValueReader, dimensions: int) -> np.ndarray:
    """The rows of a quantized table (rows, D), each times its norm where that is kept apart."""
    normed = flag(reader)
    rows, columns = shape(reader, dimensions)
    size = reader.number("i")
    if rows * columns > MOST_GROWTH * len(reader.data):
        raise ValueError(f"a quantized table of {rows:,} × {columns:,} numbers is more than {len(reader.data):,} bytes can say")
    codes = np.frombuffer(reader.take(size), dtype=np.uint8)
    parts = centroids(reader, columns)
    if size != rows * len(parts):
        raise ValueError(f"{size:,} codes are not {len(parts):,} for each of {rows:,} rows")
    found = np.empty((rows, columns), dtype=np.float32)
    first = 0
    for part, chosen in zip(parts, codes.reshape(rows, len(parts)).T, strict=True):
        found[:, first : first + part.shape[1]] = part[chosen]
        first += part.shape[1]
    if normed:
        places = np.frombuffer(reader.take(rows), dtype=np.uint8)
        found *= centroids(reader, 1)[0][places]
    return found


def centroids(reader: ValueReader, dimensions: int) -> list[np.ndarray]:
    """The centroids of each group of dimensions (256, d)."""
    total, groups, width, last = (reader.number("i") for _ in range(4))
    if not (total == dimensions and 1 <= groups <= total and width >= 1 and last >= 1 and (groups - 1) * width + last == total):
        raise ValueError(f"{total:,} dimensions are no {groups:,} groups of {width:,}, the last of {last:,}")
    values = np.frombuffer(reader.take(4 * CENTROIDS * total), dtype="<f4")
    sizes = [width] * (groups - 1) + [last]
    bounds = np.cumsum([0, *(CENTROIDS * each for each in sizes)])
    return [values[begin : begin + CENTROIDS * each].reshape(CENTROIDS, each) for begin, each in zip(bounds, sizes, strict=False)]
