"""Tensors in files: packed as safetensors, and read as views of a file that is mapped, not loaded, into memory.

Of several processes each writes its own files, the second model-1.safetensors and so on. A piece of a tensor is named by where it
begins in the whole, blocks.0.attention.qkv.weight[16,0]; the whole is put together when it is asked for.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from weft.core.errors import CheckpointError
from weft.core.untrusted import checked, natural, open_regular, parse_json, parsing

PIECE = re.compile(r"(.+)\[(\d+(?:,\d+)*)\]")
"""The name of a piece: that of the tensor, and where the piece begins in it."""
DTYPES = {
    **{"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "BOOL": torch.bool},
    **{"I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8},
}
LARGEST_HEADER, MOST_DIMENSIONS = 100 << 20, 16
Pieces = list[tuple[list[int], Tensor]]
"""Where each piece begins in the whole, and the piece."""


def kind(file: str) -> str:
    """The name that the first process gives a file: model.safetensors for model-3.safetensors."""
    return re.sub(r"-\d+(?=\.safetensors$)", "", file)


def numbered(file: str, rank: int) -> str:
    """The name that a process gives a file."""
    return file.replace(".safetensors", f"-{rank}.safetensors") if rank else file


def pack(tensors: dict[str, Tensor]) -> bytes:
    """safetensors bytes; a tensor stored under two names is written once."""
    seen: set[tuple[int, tuple[int, ...], tuple[int, ...]]] = set()
    unique = {}
    for name, tensor in tensors.items():
        storage = (tensor.data_ptr(), tuple(tensor.shape), tensor.stride())
        if tensor.numel() == 0 or storage not in seen:
            seen.add(storage)
            unique[name] = tensor.detach().cpu().contiguous()
    return safetensors.torch.save(unique, {"format": "pt"})


def mapped(path: Path) -> Any:
    """The bytes of a file, read when they are used."""
    with open_regular(path) as file:
        if not os.fstat(file.fileno()).st_size:
            return b""
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))


@dataclass(frozen=True)
class Renamed:
    """The bytes of a file of tensors that have other names now."""

    data: Any
    new_name: Callable[[str], str]


def header(data: Any) -> dict[str, tuple[torch.dtype, list[int], int]]:
    """Dtype, shape and first byte of the tensors in safetensors bytes; a ValueError where these do not lie side by side within the file."""
    start = 8 + int.from_bytes(data[:8], "little")
    if not 8 <= start <= min(len(data), LARGEST_HEADER):
        raise ValueError(f"its header claims {start - 8:,} bytes")
    found, ends = {}, []
    for name, entry in checked(parse_json(bytes(data[8:start])), {str: dict}).items():
        if name == "__metadata__":
            continue
        checked(entry, {"dtype": tuple(DTYPES), "shape": [natural], "data_offsets": [natural]})
        dtype, shape, (first, end) = DTYPES[entry["dtype"]], entry["shape"], entry["data_offsets"]
        if len(shape) > MOST_DIMENSIONS or end - first != prod(shape) * dtype.itemsize or start + end > len(data):
            raise ValueError(f"{name[:100]} does not lie within the file as its shape {shape} says")
        found[name] = dtype, shape, start + first
        ends.append((first, end))
    ends.sort()
    if any(later[0] < earlier[1] for earlier, later in pairwise(ends)):
        raise ValueError("two tensors overlap")
    return found


def unpack(data: Any) -> dict[str, Tensor]:
    """The tensors of safetensors bytes, as views of them."""
    if isinstance(data, Renamed):
        return {data.new_name(name): tensor for name, tensor in unpack(data.data).items()}
    data = bytearray(data) if isinstance(data, bytes) else data
    return {
        name: torch.frombuffer(data, dtype=dtype, count=prod(shape), offset=first).view(shape)
        if prod(shape)
        else torch.empty(shape, dtype=dtype)
        for name, (dtype, shape, first) in header(data).items()
    }


class LazyTensors(Mapping[str, Tensor]):
    """Tensors that are made each time they are asked for."""

    def __init__(self, makers: dict[str, Callable[[], Tensor]]):
        self.makers = makers

    def __getitem__(self, name: str) -> Tensor:
        return self.makers[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self.makers)

    def __len__(self) -> int:
        return len(self.makers)


def below(tensors: Mapping[str, Tensor], prefix: str) -> LazyTensors:
    """Those whose names begin so, without that beginning."""
    return LazyTensors({name[len(prefix) :]: partial(tensors.__getitem__, name) for name in tensors if name.startswith(prefix)})


def wholes(files: Iterable[Any], place: str) -> LazyTensors:
    """The whole tensors that these files together hold."""
    pieces: dict[str, Pieces] = {}
    with parsing(place, CheckpointError, " is not in the form of safetensors"):
        for name, tensor in ((name, tensor) for data in files for name, tensor in unpack(data).items()):
            match = PIECE.fullmatch(name)
            start = [int(number) for number in match[2].split(",")] if match else [0] * tensor.ndim
            pieces.setdefault(match[1] if match else name, []).append((start, tensor))
    return LazyTensors({name: partial(joined, parts, f"{place}: {name}") for name, parts in pieces.items()})


def joined(parts: Pieces, place: str) -> Tensor:
    """A tensor from its pieces; one that is whole as it is."""
    if len(parts) == 1 and not any(parts[0][0]):
        return parts[0][1]
    if len({part.ndim for _, part in parts} | {len(start) for start, _ in parts}) != 1:
        raise CheckpointError(f"{place} has pieces of several shapes")
    boxes = [tuple(slice(first, first + size) for first, size in zip(start, part.shape, strict=True)) for start, part in parts]
    shape = [max(span.stop for span in spans) for spans in zip(*boxes, strict=True)]
    if sum(part.numel() for _, part in parts) != prod(shape):
        raise CheckpointError(f"{place} lacks pieces")
    whole = parts[0][1].new_empty(shape)
    for box, (_, part) in zip(boxes, parts, strict=True):
        whole[box] = part
    return whole
