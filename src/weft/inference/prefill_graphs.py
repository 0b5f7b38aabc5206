"""Prompts of a decoder on a GPU, each read by one launch: what its blocks do to rows from their first token on, captured as a CUDA graph.

A short prompt takes the host longer to start, a dozen kernels a layer, than the GPU to read. A shape is captured when it comes again,
so that nobody pays for one that comes once. Prompts are filled up to the next of a few lengths, captured or not: the same prompt gives
the same numbers each time. Shapes: B rows, T tokens, D width.
"""

from __future__ import annotations

import logging
from typing import Any

import torch
from torch import Tensor

from weft.core.cuda_graph import capturing
from weft.nn.state import KVCache, LayerKV, Reading

log = logging.getLogger("weft")
LENGTHS = (16, 32, 64, 128, 256)
MOST = 2048
"""Tokens of all rows; more of them, or longer prompts, keep a GPU busy by themselves."""
KEPT = 8
"""Shapes whose memory is kept; beyond them all are forgotten."""


class First(LayerKV):
    """A layer's part of a cache whose rows all begin here, and end here."""

    def add(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """As its own, but in one stretch."""
        return self.keys.copy_(keys), self.values.copy_(values)


class Blank:
    """A cache that is empty before every reading, always at the same place."""

    def __init__(self, like: Tensor, rows: int, tokens: int):
        """like: the parts of a cache (2, L, B, G, S, K)."""
        layers, groups, head = like.size(1), like.size(3), like.size(5)
        self.parts = like.new_zeros(2, layers, rows, groups, tokens + 1, head)  # as a cache has them
        place = torch.arange(tokens, device=like.device).expand(rows, tokens)
        mask = torch.ones(tokens, tokens, dtype=torch.bool, device=like.device).tril().expand(rows, 1, tokens, tokens)
        self.reading = Reading(place, mask, [First(keys, values, place) for keys, values in zip(*self.parts[..., :tokens, :], strict=True)])

    def read(self, t: int) -> Reading:
        return self.reading


class Shape:
    """Rows of a number of tokens: where they are read from, and what was found."""

    def __init__(self, like: Tensor, rows: int, tokens: int):
        self.ids = torch.zeros(rows, tokens, dtype=torch.int64, device=like.device)
        self.cache, self.uses = Blank(like, rows, tokens), 0
        self.graph: torch.cuda.CUDAGraph | None = None
        self.states: Tensor = like.new_empty(0)

    def read(self, model: Any, may_capture: bool) -> None:
        self.uses += 1
        if self.graph is None and may_capture and self.uses > 1:
            graph = torch.cuda.CUDAGraph()
            with capturing(graph, "thread_local"):
                self.states = model.hidden(self.ids, self.cache)
            self.graph = graph
        if self.graph is None:
            self.states = model.hidden(self.ids, self.cache)
        else:
            self.graph.replay()


class PrefillGraphs:
    def __init__(self, model: Any):
        """model: one that `steps` knows."""
        self.model, self.may_capture, self.where = model, True, 0
        self.shapes: dict[tuple[int, int], Shape] = {}

    def hidden(self, ids: Tensor, cache: KVCache) -> Tensor:
        """As the model's own: ids (B, T) -> states (B, T, D), keys and values in the cache.

        They lie where the next prompt of that shape is read to: what is to outlive it must have been copied, as by `ModelRunner.join`.
        """
        rows, t = ids.shape
        tokens = next((length for length in LENGTHS if t <= length <= cache.room and rows * length <= MOST), 0)
        if any(cache.lengths) or not tokens:
            states: Tensor = self.model.hidden(ids, cache)
            return states
        where = self.model.head.weight.data_ptr()
        if where != self.where or ((rows, tokens) not in self.shapes and len(self.shapes) >= KEPT):
            self.shapes.clear()  # graphs know where weights were
            self.where = where
        shape = self.shapes.get((rows, tokens)) or self.shapes.setdefault((rows, tokens), Shape(cache.parts, rows, tokens))
        shape.ids.zero_()[:, :t] = ids
        self._read(shape)
        cache.parts = shape.cache.parts
        return shape.states[:, :t].clone()  # the next prompt overwrites them

    def _read(self, shape: Shape) -> None:
        try:
            shape.read(self.model, self.may_capture)
        except RuntimeError as error:
            if not self.may_capture or shape.uses == 1:
                raise
            log.warning("prompts are read without a captured graph, which takes longer: %s", str(error).partition("\n")[0])
            self.may_capture = False
            shape.read(self.model, self.may_capture)
