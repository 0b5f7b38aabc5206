"""Prompts of a decoder on a GPU, each prefilled by one launch: what its blocks do to rows from their first token on, as a CUDA graph.

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
from weft.nn.state import AttentionMetadata, KVCache, LayerKV

log = logging.getLogger("weft")
LENGTHS = (16, 32, 64, 128, 256)
MOST = 2048
"""Tokens of all rows; more of them, or longer prompts, keep a GPU busy by themselves."""
KEPT = 8
"""Shapes whose memory is kept; beyond them all are forgotten."""


class FirstKV(LayerKV):
    """A layer's part of a KV cache whose rows all begin here, and end here."""

    def update(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """As its own, but in one stretch."""
        return self.keys.copy_(keys), self.values.copy_(values)


class EmptyKVCache:
    """A KV cache that is empty before every prompt, always in the same memory."""

    def __init__(self, like: Tensor, rows: int, tokens: int):
        """like: the tensor of a KV cache (2, L, B, G, S, K)."""
        layers, groups, head = like.size(1), like.size(3), like.size(5)
        self.kv = like.new_zeros(2, layers, rows, groups, tokens + 1, head)
        positions = torch.arange(tokens, device=like.device).expand(rows, tokens)
        mask = torch.ones(tokens, tokens, dtype=torch.bool, device=like.device).tril().expand(rows, 1, tokens, tokens)
        layer_kv: list[LayerKV] = [FirstKV(keys, values, positions) for keys, values in zip(*self.kv[..., :tokens, :], strict=True)]
        self.metadata = AttentionMetadata(positions, mask, layer_kv)

    def extend(self, t: int) -> AttentionMetadata:
        return self.metadata


class Shape:
    """Rows of a number of tokens: where they are read from, and the states of their tokens."""

    def __init__(self, like: Tensor, rows: int, tokens: int):
        self.ids = torch.zeros(rows, tokens, dtype=torch.int64, device=like.device)
        self.cache, self.uses = EmptyKVCache(like, rows, tokens), 0
        self.graph: torch.cuda.CUDAGraph | None = None
        self.states: Tensor = like.new_empty(0)

    def run(self, model: Any, may_capture: bool) -> None:
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
        """model: one that `kernels.decode_step` knows."""
        self.model, self.may_capture, self.address = model, True, 0
        self.shapes: dict[tuple[int, int], Shape] = {}

    def hidden(self, ids: Tensor, state: KVCache, lengths: Tensor | None = None) -> Tensor:
        """As the model's own: ids (B, T) -> states (B, T, D), keys and values in the KV cache.

        They lie where the next prompt of that shape is read to: what is to outlive it must have been copied, as by `ModelRunner.join`.
        """
        rows, t = ids.shape
        tokens = next((length for length in LENGTHS if t <= length <= state.limit and rows * length <= MOST), 0)
        if any(state.lengths) or not tokens:
            states: Tensor = self.model.hidden(ids, state, lengths)
            return states
        address = self.model.head.weight.data_ptr()
        if address != self.address or ((rows, tokens) not in self.shapes and len(self.shapes) >= KEPT):
            self.shapes.clear()  # graphs know where weights were
            self.address = address
        shape = self.shapes.get((rows, tokens)) or self.shapes.setdefault((rows, tokens), Shape(state.kv, rows, tokens))
        shape.ids.zero_()[:, :t] = ids
        self._run(shape)
        state.kv = shape.cache.kv
        return shape.states[:, :t].clone()  # the next prompt overwrites them

    def _run(self, shape: Shape) -> None:
        try:
            shape.run(self.model, self.may_capture)
        except RuntimeError as error:
            if not self.may_capture or shape.uses == 1:
                raise
            log.warning("prompts are read without a captured graph, which takes longer: %s", str(error).partition("\n")[0])
            self.may_capture = False
            shape.run(self.model, self.may_capture)
