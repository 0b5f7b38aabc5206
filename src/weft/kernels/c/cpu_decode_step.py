"""One more token of every row of a decoder on a CPU, as one call, with weights in the order in which the processor reads them.

At few rows a step takes as long as reading all weights from memory, so that what matters is how few bytes these are: the 16 bits of
`kernels.packed_bf16_linear`, or the 8 of `kernels.int8_linear`. Beside that time calls from Python count, some three hundred a token.
A step is therefore one function in C (`kernels.c.decode_stack`), or where no compiler is found, it is traced: torch notes its calls once
and repeats them by itself. Models of other weights are read as in training.

Shapes: R rows, D width, L layers, G groups of heads, K head width, S positions of the cache, V vocabulary.
"""

from __future__ import annotations

import copy
import math
import warnings
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.kernels.c import decode_stack
from weft.kernels.c.huge_pages import use_large_pages
from weft.kernels.decode_step import refuses_stack
from weft.kernels.implementation import Implementation
from weft.kernels.int8_linear import Int8Linear
from weft.kernels.packed_bf16_linear import CastLinear, PackedBF16Linear
from weft.kernels.spec import StackSpec
from weft.kernels.usage import UsageSpec
from weft.nn.feed_forward import ACTIVATIONS, GatedFeedForward
from weft.nn.position import apply_rope
from weft.nn.state import KVCache

FEW = 6
"""Rows up to which reading weights of 16 bits takes longer than multiplying by them."""
MANY = 8 << 20
"""Weights from which on pages matter: a processor remembers where some two thousand small ones lie, which is 8 MB."""


class CPUStep(Implementation):
    name, file, slot, where = "CPU decode step", "kernels/c/cpu_decode_step.py", "", ""

    def refuses(self, spec: StackSpec, use: UsageSpec) -> str:
        if use.machine.device != "cpu":
            return "it is for a CPU"
        if spec.linear_dtypes - {"bfloat16"}:
            return "weights are neither of 8 nor of 16 bits"
        return refuses_stack(spec, use)

    def install(self, module: Any, use: UsageSpec) -> None: ...


def weights(model: nn.Module) -> int:
    """How many weights the products of a step read."""
    return sum(layer.in_features * layer.out_features for layer in model.modules() if isinstance(layer, (nn.Linear, Int8Linear)))


def product(layer: Any, few: bool) -> Any:
    """A linear layer for a few rows, or for many; it may be given what its result is added to."""
    if isinstance(layer, Int8Linear):
        return layer
    return PackedBF16Linear(layer) if few else CastLinear(layer)


def widened(norm: nn.Module) -> nn.Module:
    return copy.deepcopy(norm).float()


class DecodeLayer(nn.Module):
    """A block that reads one token of each row."""

    def __init__(self, block: Any, window: int, few: bool):
        super().__init__()
        attention, feed = block.attention, block.feedforward
        self.banded, self.pre = window > 0, block.order == "pre"
        self.heads, self.kv_heads, self.head_dim = attention.heads, attention.kv_heads, attention.head_dim
        self.gated, self.activation = isinstance(feed, GatedFeedForward), ACTIVATIONS[feed.activation]
        self.norm1, self.norm2 = widened(block.norm1), widened(block.norm2)
        self.qkv, self.out = product(attention.qkv, few), product(attention.out, few)
        self.up, self.down = product(feed.up_proj, few), product(feed.down, few)

    def forward(self, x: Tensor, slot: Tensor, kv: Tensor, window_kv: Tensor, rope: Tensor, mask: Tensor | None = None) -> Tensor:
        """x (R, D) -> (R, D). The rest as in `DecodeStack`, of one layer."""
        if self.pre:
            x = self.out(self._mix(self.norm1(x), slot, kv, window_kv, rope, mask), x)
            out: Tensor = self.down(self._hidden_units(self.norm2(x)), x)
        else:
            x = self.norm1(self.out(self._mix(x, slot, kv, window_kv, rope, mask), x))
            out = self.norm2(self.down(self._hidden_units(x), x))
        return out

    def _hidden_units(self, x: Tensor) -> Tensor:
        hidden_units = self.up(x)
        if not self.gated:
            return self.activation(hidden_units)
        gate, up = hidden_units.chunk(2, dim=-1)
        shut: Tensor = self.activation(gate) * up
        return shut

    def _mix(self, x: Tensor, slot: Tensor, kv: Tensor, window_kv: Tensor, rope: Tensor, mask: Tensor | None) -> Tensor:
        """The heads' values side by side (R, D); the new token's own are stored."""
        h, g, k = self.heads, self.kv_heads, self.head_dim
        q, new = self.qkv(x).view(-1, h + 2 * g, k).split([h, 2 * g], 1)
        if rope.ndim > 1:
            q = apply_rope(q[:, None], rope)[:, 0]
            keys, values = new.chunk(2, 1)
            new = torch.cat([apply_rope(keys[:, None], rope)[:, 0], values], dim=1)
        new = new.view(-1, 2, g, k).transpose(0, 1)  # (2, R, G, K)
        if mask is None:
            slot.copy_(new)
        else:
            kv.scatter_(3, slot, new.unsqueeze(3))
        keys, values = window_kv.unbind(0)
        # the heads of a group look together, so that no key is copied
        return F.scaled_dot_product_attention(q.reshape(-1, g, h // g, k), keys, values, attn_mask=mask).reshape(-1, h * k)


class DecodeStack(nn.Module):
    """All that a token goes through behind its embedding."""

    def __init__(self, model: Any, few: bool):
        super().__init__()
        windows = getattr(model, "windows", [0] * len(model.blocks))
        self.layers = nn.ModuleList(DecodeLayer(block, window, few) for block, window in zip(model.blocks, windows, strict=True))
        self.norm, self.head = widened(model.norm), product(model.head, few)

    def forward(
        self, x: Tensor, slots: Tensor, kv: Tensor, window_kv: Tensor, rope: Tensor, mask: Tensor | None = None, band: Tensor | None = None
    ) -> Tensor:
        """x (R, D) -> logits (R, V).

        kv: keys and values (2, L, R, G, S, K). window_kv: those of them that blocks with a window look at. rope: of rotary positions
        (2, R, 1, K), else empty. Where all rows are of one length, slots is where the keys and values of the new tokens go; else
        their positions, and what each row sees is told by a mask and by a band of it (R, 1, 1, S), to be added.
        """
        for layer, slot, its, close in zip(self.layers, slots.unbind(1), kv.unbind(1), window_kv.unbind(1), strict=True):
            x = layer(x, slot, its, close, rope, band) if layer.banded else layer(x, slot, its, its, rope, mask)
        logits: Tensor = self.head(self.norm(x))
        return logits


class CPUDecodeStep:
    """The same call as `decode_step.DecodeStep` has. What it needs is made when the first token is read."""

    def __init__(self, model: Any):
        self.model = model
        self.window: int = max(getattr(model, "windows", [0]))
        self.int8 = isinstance(model.head, Int8Linear)
        self.stacks: dict[bool, DecodeStack] = {}
        self.traced: dict[bool, Any] = {}
        """By whether all rows are of one length."""

    def __call__(self, ids: Tensor, cache: KVCache) -> Tensor:
        """The last token of each row (R,), read and counted -> logits (R, V)."""
        rows = len(ids)
        few = self.int8 or rows <= FEW
        positions = torch.tensor(cache.lengths)  # (R,)
        cache.reserve(rows, max(cache.lengths) + 1)
        x = self.model.embedded(ids[:, None], positions[:, None])[:, 0].float()
        if rows == 1 and cache.kv.dtype == torch.float32 and self.native:
            logits = self.native(x, cache.lengths[0], cache.kv[:, :, :1], self._rope_table(positions))
        else:
            given = (x, *self._decode_inputs(positions, cache.lengths, cache.kv[:, :, :rows]))
            logits = self._stack(few, given)(*given)
        cache.count([1] * rows)
        return logits

    @cached_property
    def native(self) -> decode_stack.CStack | None:
        """The step of one row in C, where there is one; made when its first token is read."""
        made = decode_stack.compiled(self.model)
        if made and weights(self.model) >= MANY:
            use_large_pages()
        return made

    def _rope_table(self, positions: Tensor) -> Tensor | None:
        rotary: Tensor | None = getattr(self.model, "rotary", None)
        return None if rotary is None else rotary.index_select(1, positions).float()

    def _decode_inputs(self, positions: Tensor, lengths: list[int], parts: Tensor) -> tuple[Tensor, ...]:
        """All that `DecodeStack` is given but the tokens. positions (R,): the rows' lengths, as a tensor. parts (2, L, R, G, S, K)."""
        long = max(lengths) + 1
        kv, rotary = parts[:, :, :, :, :long], getattr(self.model, "rotary", None)
        rope = positions.new_empty(0) if rotary is None else rotary[:, positions[:, None]]
        if min(lengths) == max(lengths):
            window_kv = kv[:, :, :, :, max(0, long - self.window) :] if self.window else kv
            return parts[:, :, :, :, long - 1], kv, window_kv, rope
        slots = positions[:, None, None, None].expand(*parts.shape[:4], 1, parts.size(5))
        distance = (positions[:, None] - torch.arange(long))[:, None, None]  # (R, 1, 1, S)
        mask = torch.zeros(distance.shape).masked_fill_(distance < 0, -math.inf)
        band = mask.masked_fill(distance >= self.window, -math.inf) if self.window else mask
        return slots, kv, kv, rope, mask, band

    def _stack(self, few: bool, given: tuple[Tensor, ...]) -> Any:
        if few not in self.stacks:
            self.stacks[few] = DecodeStack(self.model, few).eval()
            if weights(self.model) >= MANY:
                use_large_pages()
        if not few:  # the products, not the calls, take the time
            return self.stacks[few]
        alike = len(given) == 5
        if alike not in self.traced:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch would have a compiler do this, which few machines have
                self.traced[alike] = torch.jit.trace(self.stacks[few], given, check_trace=False)  # type: ignore[no-untyped-call]
        return self.traced[alike]
