"""A Transformer block in training on a CPU, in fp32, as one operation with a backward pass of our own.

PyTorch multiplies fp32 matrices by MKL, which on AMD's processors is a tenth slower than oneDNN; the gradients of weights stay with
MKL, which reads transposed matrices faster. Attention is causal, and made of products. Of a large batch each core takes its share
through the whole block (`lanes`), some sequences at a time, so that it finds in its cache most of what it has just written.
Shapes: B batch, T time, D width, H heads, K head width, M = B T rows, I and O what goes into a product and comes out.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from weft.layers import lanes
from weft.layers.attention import SelfAttention
from weft.layers.causal_attention import attend, attend_back

TOGETHER = 1 << 20
"""Inner numbers, about, of the sequences that a core takes through a block together; batches with fewer for a core have no lanes."""
APPROXIMATE = {"gelu": "none", "gelu_tanh": "tanh"}


def fits(block: Any, x: Tensor, mask: Any, rotary: Tensor | None) -> bool:
    """Whether a block is of GPT-2's kind, with nothing dropped, and takes x (B, T, D) in fp32 on a CPU."""
    attention, feed = block.attention, block.feedforward
    linear = [attention.qkv, attention.out, getattr(feed, "rise", None), getattr(feed, "fall", None)]
    return (
        x.device.type == "cpu"
        and x.dtype == torch.float32
        and x.numel() > 0
        and mask is rotary is None
        and block.order == "pre"
        and not block.dropout.share
        and type(attention) is SelfAttention
        and attention.causal
        and attention.groups == attention.heads
        and not (attention.norm_heads or attention.dropout)
        and getattr(feed, "activation", "") in APPROXIMATE
        and all(type(layer) is nn.Linear for layer in linear)
        and all(type(parameter.data) is Tensor for parameter in block.parameters())  # not a part of one that processes share
        and all(type(norm) is nn.LayerNorm and norm.elementwise_affine for norm in (block.norm1, block.norm2))
        and block.norm1.eps == block.norm2.eps
        and not (torch.is_autocast_enabled("cpu") or torch.compiler.is_compiling())
    )


def cpu_block(block: Any, x: Tensor) -> Tensor:
    """`Block.compute`, x (B, T, D) -> (B, T, D)."""
    attention, feed = block.attention, block.feedforward
    parts = (block.norm1, attention.qkv, attention.out, block.norm2, feed.rise, feed.fall)
    held = [tensor for part in parts for tensor in (part.weight, part.bias)]
    out: Tensor = _Block.apply(x, attention.heads, block.norm1.eps, APPROXIMATE[feed.activation], *held)  # type: ignore[no-untyped-call]
    return out


class Held(NamedTuple):
    """The weights of a block, or their gradients; None for a bias that is not there, or a gradient that nobody wants."""

    scale1: Any
    shift1: Any
    qkv: Any
    qkv_bias: Any
    out: Any
    out_bias: Any
    scale2: Any
    shift2: Any
    rise: Any
    rise_bias: Any
    fall: Any
    fall_bias: Any


class _Block(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, heads: int, eps: float, approximate: str, *held: Tensor | None) -> Tensor:
        (b, t, d), w = x.shape, Held(*held)
        rows, out = x.reshape(-1, d), torch.empty_like(x, memory_format=torch.contiguous_format)
        cuts, place = cut(b, t, len(w.rise)), out.view(-1, d)

        def lane(parts: list[slice]) -> list[list[Tensor]]:
            return [forth(rows[part], place[part], w, t, heads, eps, approximate) for part in parts]

        kept = [tensors for parts in lanes.side_by_side(lane, cuts) for tensors in parts]
        ctx.save_for_backward(*held, *(tensor for tensors in kept for tensor in tensors))
        ctx.shape, ctx.approximate, ctx.cuts, ctx.each = x.shape, approximate, cuts, len(kept[0])
        return out

    @staticmethod
    @once_differentiable  # type: ignore[misc]
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        number = len(Held._fields)
        w, kept = Held(*ctx.saved_tensors[:number]), iter(ctx.saved_tensors[number:])
        change = gradients[0].reshape(-1, ctx.shape[-1])
        out = torch.empty_like(change)
        work = [[(part, [next(kept) for _ in range(ctx.each)]) for part in parts] for parts in ctx.cuts]

        def lane(parts: list[tuple[slice, list[Tensor]]]) -> Sums:
            sums = Sums(ctx.needs_input_grad[-number:])
            for part, tensors in parts:
                back(change[part], out[part], w, sums, ctx, *tensors)
            return sums

        found = lanes.side_by_side(lane, work, total).found
        return out.view(ctx.shape), None, None, None, *(found.get(name) for name in Held._fields)


def cut(batch: int, t: int, inner: int) -> list[list[slice]]:
    """For each lane the rows of its parts, which are whole sequences of t tokens. A batch that is too small for lanes is one part."""
    number = min(batch, lanes.number())
    if batch * t * inner < number * TOGETHER:
        return [[slice(0, batch * t)]]
    some, ends = max(1, TOGETHER // (t * inner)), [batch * i // number for i in range(number + 1)]
    return [[slice(t * i, t * min(i + some, end)) for i in range(start, end, some)] for start, end in pairwise(ends)]


class Sums:
    """The gradients of a block's weights, added up over the parts of a lane."""

    def __init__(self, wanted: Sequence[bool]):
        self.wanted = {name for name, want in zip(Held._fields, wanted, strict=True) if want}
        self.found: dict[str, Tensor] = {}

    def add(self, name: str, value: Tensor) -> None:
        if name in self.found:
            self.found[name].add_(value)
        else:
            self.found[name] = value

    def layer(self, name: str, change: Tensor, x: Tensor) -> None:
        """What a layer's output's gradient (M, O) and its input (M, I) make of its weight (O, I) and bias (O,)."""
        if name in self.found:
            self.found[name].addmm_(change.t(), x)
        elif name in self.wanted:
            self.found[name] = torch.mm(change.t(), x)
        if f"{name}_bias" in self.wanted:
            self.add(f"{name}_bias", change.sum(0))

    def norm(self, number: int, change: Tensor, x: Tensor, mean: Tensor, rate: Tensor, w: Held) -> Tensor:
        """The gradient of x (M, D) from that of its norm, whose weights get theirs."""
        names = (f"scale{number}", f"shift{number}")
        wanted = [True, *(name in self.wanted for name in names)]
        held = [getattr(w, name) for name in names]
        found, *sums = torch.ops.aten.native_layer_norm_backward(change, x, [x.size(-1)], mean, rate, *held, wanted)
        for name, value in zip(names, sums, strict=True):
            if name in self.wanted:
                self.add(name, value)
        out: Tensor = found
        return out


def total(found: list[Sums]) -> Sums:
    """The gradients of all lanes, added to those of the first."""
    for other in found[1:]:
        for name, value in other.found.items():
            found[0].add(name, value)
    return found[0]


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x (M, I) weightᵀ (I, O) + bias (O,), by oneDNN."""
    found: Tensor = torch.ops.mkldnn._linear_pointwise.default(x, weight, bias, "none", [], "")  # without its name it is sought each time
    return found


def forth(rows: Tensor, place: Tensor, w: Held, t: int, heads: int, eps: float, approximate: str) -> list[Tensor]:
    """What a block makes of some sequences' rows (M, D) goes to `place`; what the backward pass needs is returned."""
    d = rows.size(1)
    normed1, mean1, rate1 = torch.native_layer_norm(rows, [d], w.scale1, w.shift1, eps)
    mixed, laid, weights, _ = attend(product(normed1, w.qkv, w.qkv_bias).view(-1, t, 3, heads, d // heads))
    mixed = mixed.view(-1, d)
    middle = product(mixed, w.out, w.out_bias).add_(rows)
    normed2, mean2, rate2 = torch.native_layer_norm(middle, [d], w.scale2, w.shift2, eps)
    risen = product(normed2, w.rise, w.rise_bias)
    active = F.gelu(risen, approximate=approximate)
    torch.add(product(active, w.fall, w.fall_bias), middle, out=place)
    return [rows, normed1, mean1, rate1, laid, mixed, middle, normed2, mean2, rate2, risen, active, *weights]


def back(
    change: Tensor,
    place: Tensor,
    w: Held,
    sums: Sums,
    ctx: Any,
    rows: Tensor,
    normed1: Tensor,
    mean1: Tensor,
    rate1: Tensor,
    laid: Tensor,
    mixed: Tensor,
    middle: Tensor,
    normed2: Tensor,
    mean2: Tensor,
    rate2: Tensor,
    risen: Tensor,
    active: Tensor,
    *weights: Tensor,
) -> None:
    """The gradient of those rows (M, D) from that of what was made of them goes to `place`, those of the weights to `sums`."""
    sums.layer("fall", change, active)
    inner = torch.ops.aten.gelu_backward(product(change, w.fall.t()), risen, approximate=ctx.approximate)
    sums.layer("rise", inner, normed2)
    onward = sums.norm(2, product(inner, w.rise.t()), middle, mean2, rate2, w).add_(change)
    sums.layer("out", onward, mixed)
    mixing = product(onward, w.out.t()).view(-1, *ctx.shape[1:])
    packed = attend_back(mixing, laid, list(weights), []).view(len(change), -1)
    sums.layer("qkv", packed, normed1)
    torch.add(sums.norm(1, product(packed, w.qkv.t()), rows, mean1, rate1, w), onward, out=place)
