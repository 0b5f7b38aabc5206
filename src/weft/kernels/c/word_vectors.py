"""Updates of word vectors by stochastic gradient descent, in C (`word_vectors.c`), where the machine has a compiler.

The tables are a pure function of what they were, of words, keys and rate: the number of threads changes no bit. Shapes: B passages,
L length, V vocabulary, D width, N longest path.
"""

from __future__ import annotations

import ctypes
import zlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from weft.kernels.c import compiler

SOURCE = Path(__file__).with_name("word_vectors.c")
STREAMS = tuple(f"{name.upper()}={zlib.crc32(name.encode())}u" for name in ("subsample", "reach", "negatives"))
"""Names of the streams of random numbers, as weft.core.random makes numbers of them."""
GUIDE = 1 << 16
"""Parts of the noise distribution whose first word is known, so that drawing one looks at few."""
Address, Number = ctypes.c_void_p, ctypes.c_int64


class Job(ctypes.Structure):
    arrays = ("words", "guide", "offsets", "nodes", "keys", "noise", "keep", "codes", "input", "output", "loss", "counts")
    numbers = (
        "passages",
        "length",
        "width",
        "window",
        "centres",
        "cbow",
        "negatives",
        "longest",
        "threads",
        "parts",
        "limit",
        "vocabulary",
    )
    _fields_ = [*[(name, Address) for name in arrays], *[(name, Number) for name in numbers], ("rate", ctypes.c_float)]


@dataclass
class Settings:
    """What is predicted from what, and against what: noise words (V,) of a cumulated distribution, or paths (V, N) of a tree."""

    architecture: str
    window: int
    centres: int
    keep: Tensor
    noise: Tensor | None = None
    negatives: int = 0
    nodes: Tensor | None = None
    signs: Tensor | None = None
    limit: int = 0
    """Entries of a row that count in full in an update; 0 for all."""

    @cached_property
    def tensors(self) -> dict[str, Tensor]:
        """What the function in C reads besides tables and batch."""
        if self.noise is not None:
            starts = torch.arange(GUIDE + 1) << (48 - 16)
            guide = torch.searchsorted(self.noise, starts, right=True).to(torch.int32)
            return {"keep": self.keep, "noise": self.noise, "guide": guide}
        assert self.nodes is not None and self.signs is not None
        real = self.signs != 0
        offsets = torch.cat([torch.zeros(1, dtype=torch.int64), real.sum(1).cumsum(0)]).to(torch.int32)
        codes = (self.signs[real] > 0).float()
        return {"keep": self.keep, "offsets": offsets, "nodes": self.nodes[real].to(torch.int32), "codes": codes}


def serves(*tables: Tensor) -> bool:
    """Whether tables (V, D) can be updated."""
    plain = all(t.device.type == "cpu" and t.dtype == torch.float32 and t.is_contiguous() for t in tables)
    return plain and compiler.load(SOURCE, STREAMS) is not None


def update(centre: Tensor, context: Tensor, words: Tensor, key: Tensor, settings: Settings, rate: float) -> tuple[float, float]:
    """Update both tables (V, D) in place by passages words (B, L), key (B,); the sum of losses before each update, and their number.
    A rate of 0 writes nothing."""
    library = compiler.load(SOURCE, STREAMS)
    assert library
    words, sums = words.to(torch.int32).contiguous(), torch.zeros(2, dtype=torch.float64)
    given = {**settings.tensors, "words": words, "keys": key.contiguous(), "input": centre, "output": context, "loss": sums}
    if settings.limit:
        given["counts"] = torch.zeros(2, len(centre), dtype=torch.int32)
    longest = 1 + settings.negatives if settings.signs is None else int(settings.tensors["offsets"].diff().max())
    numbers = {
        "passages": len(words), "length": words.size(1), "width": centre.size(1), "window": settings.window, "centres": settings.centres,
        "cbow": settings.architecture == "cbow", "negatives": settings.negatives, "longest": longest, "threads": torch.get_num_threads(),
        "limit": settings.limit, "vocabulary": len(centre),
    }  # fmt: skip
    library.update_words.restype = Number
    job = Job(**{name: tensor.data_ptr() for name, tensor in given.items()}, **numbers, rate=rate)
    if library.update_words(ctypes.byref(job)):
        raise MemoryError("there is no room for the updates of word vectors")
    return float(sums[0]), float(sums[1])
