"""The layout of a GGUF file: its facts and where its tensors lie, each length and offset checked against the file before it is used.

https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, versions 2 and 3, little-endian.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from weft.core.untrusted import open_regular

MAGIC, VERSIONS = b"GGUF", (2, 3)
SCALARS = dict(zip(range(13), ("<u1", "<i1", "<u2", "<i2", "<u4", "<i4", "<f4", "?", "", "", "<u8", "<i8", "<f8"), strict=True))
STRING, ARRAY = 8, 9
MOST_TENSORS, MOST_FACTS, MOST_DIMENSIONS = 100_000, 100_000, 4
LONGEST_NAME = 1 << 16


class TensorInfo(NamedTuple):
    """A tensor in the file."""

    shape: tuple[int, ...]
    """As in PyTorch, the last dimension being that of neighbours."""
    kind: int
    """How its numbers are stored."""
    first: int
    size: int


@dataclass
class ValueReader:
    """Values of a file, one after another; a ValueError where one would lie beyond its end."""

    data: memoryview
    position: int = 0

    def take(self, size: int) -> memoryview:
        if not 0 <= size <= len(self.data) - self.position:
            raise ValueError(f"{size:,} bytes are expected at byte {self.position:,}, of {len(self.data):,}")
        self.position += size
        return self.data[self.position - size : self.position]

    def number(self, format: str) -> int:
        (value,) = struct.unpack(f"<{format}", self.take(struct.calcsize(f"<{format}")))
        return int(value)

    def text(self) -> str:
        return bytes(self.take(self.number("Q"))).decode("utf-8", errors="replace")

    def value(self, kind: int) -> Any:
        """A number, a text, or a list of one of them."""
        if kind == STRING:
            return self.text()
        if kind == ARRAY:
            return self.array(self.number("I"), self.number("Q"))
        if not SCALARS.get(kind):
            raise ValueError(f"a value is of the unknown kind {kind}")
        return np.frombuffer(self.take(np.dtype(SCALARS[kind]).itemsize), SCALARS[kind])[0].item()

    def array(self, kind: int, number: int) -> Any:
        """A list of texts, or an array of numbers; of lists, which nobody writes, none."""
        if kind == STRING:
            if number > (len(self.data) - self.position) // 8:
                raise ValueError(f"a list claims {number:,} texts")
            return [self.text() for _ in range(number)]
        if not SCALARS.get(kind):
            raise ValueError(f"a list is of the unknown kind {kind}")
        dtype = np.dtype(SCALARS[kind])
        return np.frombuffer(self.take(number * dtype.itemsize), dtype)


@dataclass
class GGUFFile:
    """Facts by name, and where the tensors lie."""

    data: memoryview
    facts: dict[str, Any] = field(default_factory=dict)
    tensors: dict[str, TensorInfo] = field(default_factory=dict)

    def stored(self, name: str) -> np.ndarray:
        """The bytes of a tensor."""
        info = self.tensors[name]
        return np.frombuffer(self.data, np.uint8, info.size, info.first)


def open_file(path: Path, block_size: Callable[[int], tuple[int, int]]) -> GGUFFile:
    """The layout of a file; block_size: numbers in a block of a kind, and its bytes, a ValueError for a kind that is not known."""
    with open_regular(path) as file:
        data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    reader, found = ValueReader(data), GGUFFile(data)
    if bytes(reader.take(4)) != MAGIC or (version := reader.number("I")) not in VERSIONS:
        raise ValueError("it does not begin as one of version 2 or 3")
    tensors, facts = reader.number("Q"), reader.number("Q")
    if tensors > MOST_TENSORS or facts > MOST_FACTS:
        raise ValueError(f"version {version} with {tensors:,} tensors and {facts:,} facts")
    for _ in range(facts):
        name = reader.text()
        found.facts[name] = reader.value(reader.number("I"))
    infos = [tensor_info(reader) for _ in range(tensors)]
    align = found.facts.get("general.alignment", 32)
    if type(align) is not int or not 1 <= align <= 1 << 20:
        raise ValueError(f"general.alignment is {str(align)[:40]}")
    start = -(-reader.position // align) * align
    for name, shape, kind, offset in infos:
        numbers, size = block_size(kind)
        if name in found.tensors or shape[-1] % numbers:
            raise ValueError(f"the tensor {name[:100]!r} is there twice, or {shape} are no whole blocks of {numbers}")
        found.tensors[name] = TensorInfo(shape, kind, start + offset, prod(shape) // numbers * size)
    refuse_overlap(found, len(data))
    return found


def tensor_info(reader: ValueReader) -> tuple[str, tuple[int, ...], int, int]:
    """Name, shape, kind and offset of a tensor."""
    name, dimensions = reader.text(), reader.number("I")
    if not 1 <= dimensions <= MOST_DIMENSIONS or len(name) > LONGEST_NAME:
        raise ValueError(f"the tensor {name[:100]!r} has {dimensions} dimensions")
    shape = tuple(reader.number("Q") for _ in range(dimensions))[::-1]
    return name, shape, reader.number("I"), reader.number("Q")


def refuse_overlap(found: GGUFFile, size: int) -> None:
    """Refuse tensors that lie outside the file, or over one another: many of them would be far larger than it."""
    spans = sorted((info.first, info.first + info.size, name) for name, info in found.tensors.items())
    for first, end, name in spans:
        if first < 0 or end > size:
            raise ValueError(f"the tensor {name[:100]!r} lies outside the file")
    for (_, end, name), (first, _, other) in pairwise(spans):
        if first < end:
            raise ValueError(f"the tensors {name[:100]!r} and {other[:100]!r} overlap")
