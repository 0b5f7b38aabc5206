"""One more token of every row of a decoder on a CPU, with few calls a layer and weights in the order in which the processor reads them.

At few rows a step takes as long as reading all weights from memory, so that what matters is how few bytes these are: bfloat16, or the 8
bits of `layers.rounded`. Models of other weights are read as in training.

Shapes: R rows, D width, G groups of heads, K head width, S places, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.generation.steps import is_stack
from weft.layers.block import ACTIVATIONS, GatedFeedForward
from weft.layers.cache import Cache
from weft.layers.position import rotate
from weft.layers.rounded import RoundedLinear

NAMES = {"gelu": ("gelu", "none"), "gelu_tanh": ("gelu", "tanh"), "relu": ("relu", ""), "silu": ("swish", "")}
"""What the library for products of bfloat16 calls the non-linearities."""


def fits(model: Any) -> bool:
    """Whether a model is a stack of blocks on a CPU whose weights are of 8 or of 16 bits."""
    if not is_stack(model) or not next(model.parameters()).is_cpu:
        return False
    return isinstance(model.head, RoundedLinear) or (model.head.weight.dtype == torch.bfloat16 and has_packed_products())


def has_packed_products() -> bool:
    return torch.backends.mkldnn.is_available() and bool(  # type: ignore[no-untyped-call]
        torch.ops.mkldnn._is_mkldnn_bf16_supported()
    )


class PackedLinear:
    """A linear layer of bfloat16 with its own copy of the weights, in the order in which they are read."""

    def __init__(self, layer: nn.Linear, kind: str = ""):
        """kind: non-linearity behind it."""
        self.weight = torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach(), 1)
        self.bias = None if layer.bias is None else layer.bias.detach()
        self.kind = NAMES[kind] if kind else ("none", "")

    def __call__(self, x: Tensor, added: Tensor | None = None) -> Tensor:
        """x (R, I) -> (R, O)."""
        if added is not None:
            out: Tensor = torch.ops.mkldnn._linear_pointwise.binary(x, added, self.weight, self.bias, "add")
        else:
            out = torch.ops.mkldnn._linear_pointwise.default(x, self.weight, self.bias, self.kind[0], [], self.kind[1])
        return out


def product(layer: Any, kind: str = "") -> Callable[..., Tensor]:
    """A linear layer with a non-linearity behind it; without one, it may be given what its result is added to."""
    if not isinstance(layer, RoundedLinear):
        return PackedLinear(layer, kind)
    return (lambda x: ACTIVATIONS[kind](layer.forward(x))) if kind else layer.forward


class Layer:
    """A block that reads one token of each row."""

    def __init__(self, block: Any, window: int):
        attention, feed = block.attention, block.feedforward
        self.block, self.window, self.pre = block, window, block.order == "pre"
        self.heads, self.groups, self.head = attention.heads, attention.groups, attention.head
        self.gate = ACTIVATIONS[feed.activation] if isinstance(feed, GatedFeedForward) else None
        self.qkv, self.out = product(attention.qkv), product(attention.out)
        self.rise, self.fall = product(feed.rise, "" if self.gate else feed.activation), product(feed.fall)

    def __call__(self, x: Tensor, where: Where, held: Tensor) -> Tensor:
        """x (R, D), held keys and values (2, R, G, S, K) -> (R, D)."""
        block = self.block
        if self.pre:
            x = self.out(self._mix(block.norm1(x), where, held), x)
            return self.fall(self._risen(block.norm2(x)), x)
        x = block.norm1(self.out(self._mix(x, where, held), x))
        after: Tensor = block.norm2(self.fall(self._risen(x), x))
        return after

    def _risen(self, x: Tensor) -> Tensor:
        risen = self.rise(x)
        if self.gate is None:
            return risen
        gate, up = risen.chunk(2, dim=-1)
        return self.gate(gate) * up

    def _mix(self, x: Tensor, where: Where, held: Tensor) -> Tensor:
        """The heads' values side by side (R, D); the new token's own are stored."""
        h, g, k, rows = self.heads, self.groups, self.head, len(x)
        qkv = self.qkv(x).view(rows, h + 2 * g, k)
        if where.turns is not None:
            qkv = torch.cat([rotate(qkv[:, None, : h + g], where.turns)[:, 0], qkv[:, h + g :]], dim=1)
        q = qkv[:, :h].to(held.dtype).view(rows, g, h // g, k)  # the heads of a group look together, so no key is copied
        where.store(held, qkv[:, h:].view(rows, 2, g, k).transpose(0, 1))
        first, mask = where.sees(self.window)
        keys, values = held if not first else held[:, :, :, first:]
        found = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
        return found.reshape(rows, h * k).to(x.dtype)


class Where:
    """Places of the tokens that a step reads, one of each row."""

    def __init__(self, lengths: list[int], rotary: Tensor | None):
        """lengths: of the rows before the step."""
        self.longest, self.same = max(lengths), min(lengths) == max(lengths)
        self.place = torch.tensor(lengths)  # (R,)
        self.rows = torch.arange(len(lengths))
        self.turns = None if rotary is None else rotary[:, self.place[:, None]]  # (2, R, 1, K)

    def store(self, held: Tensor, new: Tensor) -> None:
        """New keys and values (2, R, G, K) into those that are held (2, R, G, S, K)."""
        if self.same:
            held[:, :, :, self.longest] = new
        else:
            held[:, self.rows, :, self.place] = new.transpose(0, 1).to(held.dtype)  # an index does not change the type by itself

    def sees(self, window: int) -> tuple[int, Tensor | None]:
        """The first place that is looked at, and which of them by each row (R, 1, 1, S); None for all."""
        if self.same:
            return (max(0, self.longest + 1 - window) if window else 0), None
        back = self.place[:, None] - torch.arange(self.longest + 1)  # (R, S)
        near = (back >= 0) & (back < window) if window else back >= 0
        return 0, near[:, None, None]


class CpuSteps:
    """The same call as `steps.Steps` has. Weights are packed when the first token is read."""

    def __init__(self, model: Any):
        self.model = model
        self.layers: list[Layer] = []

    def __call__(self, ids: Tensor, cache: Cache) -> Tensor:
        """The last token of each row (R,), read and counted -> logits (R, V)."""
        if not self.layers:
            windows = getattr(self.model, "windows", [0] * len(self.model.blocks))
            self.layers = [Layer(block, window) for block, window in zip(self.model.blocks, windows, strict=True)]
            self.head = product(self.model.head)
        rows = len(ids)
        where = Where(cache.lengths, getattr(self.model, "rotary", None))
        cache.make_room(rows, where.longest + 1)
        x = self.model.embedded(ids[:, None], where.place[:, None])[:, 0]
        held = cache.parts[:, :, :rows, :, : where.longest + 1].unbind(1)  # for each layer (2, R, G, S, K)
        for layer, its in zip(self.layers, held, strict=True):
            x = layer(x, where, its)
        cache.count([1] * rows)
        return self.head(self.model.norm(x))
