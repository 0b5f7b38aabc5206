"""A Transformer block in training on a CPU, in fp32, as one operation with a backward pass of our own.

PyTorch multiplies fp32 matrices by MKL, which on AMD's processors is a tenth slower than oneDNN; the gradients of weights stay with
MKL, which reads transposed matrices faster. What is done between products is in `passes`. Attention is causal.
Shapes: B batch, T time, D width, H heads, K head width, M = B T rows, I and O what goes into a product and comes out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from weft.layers import passes
from weft.layers.attention import SelfAttention

APPROXIMATE = {"gelu": "none", "gelu_tanh": "tanh"}


def fits(block: Any, x: Tensor, mask: Any, rotary: Tensor | None) -> bool:
    """Whether a block is of GPT-2's kind, with nothing dropped, and takes x (B, T, D) in fp32 on a CPU."""
    attention, feed = block.attention, block.feedforward
    linear = [attention.qkv, attention.out, getattr(feed, "rise", None), getattr(feed, "fall", None)]
    return (
        x.device.type == "cpu"
        and x.dtype == torch.float32
        and x.numel() > 0
        and type(x) in (Tensor, nn.Parameter)  # whose numbers can be read where they lie
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
        and all(isinstance(norm, nn.LayerNorm) and norm.elementwise_affine for norm in (block.norm1, block.norm2))
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
        out = torch.empty_like(x, memory_format=torch.contiguous_format)  # no view, as FSDP wants none from a block
        kept = forth(x.reshape(-1, x.size(2)), out.view(-1, x.size(2)), Held(*held), x.size(1), heads, eps, approximate)
        ctx.save_for_backward(*held, *kept)
        ctx.shape, ctx.approximate = x.shape, approximate
        return out

    @staticmethod
    @once_differentiable  # type: ignore[misc]
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        number = len(Held._fields)
        w, kept = Held(*ctx.saved_tensors[:number]), ctx.saved_tensors[number:]
        found = Found(ctx.needs_input_grad[-number:])
        out = back(gradients[0].reshape(-1, ctx.shape[-1]), w, found, ctx, *kept)
        return out.view(ctx.shape), None, None, None, *(found.get(name) for name in Held._fields)


class Found(dict[str, Tensor]):
    """The gradients of a block's weights, of those that are wanted."""

    def __init__(self, wanted: Sequence[bool]):
        self.wanted = {name for name, want in zip(Held._fields, wanted, strict=True) if want}

    def layer(self, name: str, change: Tensor, x: Tensor, sums: Tensor | None = None) -> None:
        """What a layer's output's gradient (M, O) and its input (M, I) make of its weight (O, I) and bias (O,); sums: the gradient's, if
        they are known."""
        if name in self.wanted:
            self[name] = torch.mm(change.t(), x)
        if f"{name}_bias" in self.wanted:
            self[f"{name}_bias"] = passes.columns(change) if sums is None else sums

    def norm(
        self, number: int, change: Tensor, x: Tensor, mean: Tensor, rate: Tensor, w: Held, added: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """The gradient of x (M, D) from that of its norm, whose weights get theirs, plus what is added, and its sums if they are known."""
        names = (f"scale{number}", f"shift{number}")
        wanted = [True, *(name in self.wanted for name in names)]
        scale, shift = (getattr(w, name) for name in names)
        out, dscale, dshift, sums = passes.norm_back(change, x, mean, rate, scale, shift, added, wanted)
        self.update({name: value for name, value in zip(names, (dscale, dshift), strict=True) if name in self.wanted})
        return out, sums


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x (M, I) weightᵀ (I, O) + bias (O,), by oneDNN."""
    found: Tensor = torch.ops.mkldnn._linear_pointwise.default(x, weight, bias, "none", [], "")  # without its name it is sought each time
    return found


def forth(rows: Tensor, place: Tensor, w: Held, t: int, heads: int, eps: float, approximate: str) -> list[Tensor]:
    """What a block makes of sequences' rows (M, D) goes to `place`; what the backward pass needs is returned."""
    d = rows.size(1)
    normed1, mean1, rate1 = passes.norm(rows, None, w.scale1, w.shift1, eps)
    mixed, seen = passes.attend(product(normed1, w.qkv, w.qkv_bias).view(-1, t, 3, heads, d // heads))
    mixed = mixed.view(-1, d)
    middle = product(mixed, w.out, w.out_bias)
    normed2, mean2, rate2 = passes.norm(middle, rows, w.scale2, w.shift2, eps)
    active, slope = passes.gelu(product(normed2, w.rise, w.rise_bias), approximate)
    torch.add(product(active, w.fall, w.fall_bias), middle, out=place)
    return [rows, normed1, mean1, rate1, mixed, middle, normed2, mean2, rate2, slope, active, *seen]


def back(
    change: Tensor,
    w: Held,
    found: Found,
    ctx: Any,
    rows: Tensor,
    normed1: Tensor,
    mean1: Tensor,
    rate1: Tensor,
    mixed: Tensor,
    middle: Tensor,
    normed2: Tensor,
    mean2: Tensor,
    rate2: Tensor,
    slope: Tensor,
    active: Tensor,
    *seen: Tensor,
) -> Tensor:
    """The gradient of those rows (M, D) from that of what was made of them; those of the weights go to `found`."""
    found.layer("fall", change, active)
    inner, sums = passes.gelu_back(product(change, w.fall.t()), slope, ctx.approximate)
    found.layer("rise", inner, normed2, sums)
    onward, sums = found.norm(2, product(inner, w.rise.t()), middle, mean2, rate2, w, change)
    found.layer("out", onward, mixed, sums)
    packed = passes.attend_back(product(onward, w.out.t()).view(-1, *ctx.shape[1:]), seen).view(len(change), -1)
    found.layer("qkv", packed, normed1)
    return found.norm(1, product(packed, w.qkv.t()), rows, mean1, rate1, w, onward)[0]
