"""A Transformer block in training on a CPU, in fp32, as one operation with a backward pass of our own.

PyTorch multiplies fp32 matrices by MKL, which on AMD's processors is a tenth slower than oneDNN; the gradients of weights stay with
MKL, which reads transposed matrices faster. Attention is causal, and made of products.
Shapes: B batch, T time, D width, H heads, K head width, M = B T rows, I and O what goes into a product and comes out.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from weft.layers.attention import SelfAttention
from weft.layers.causal_attention import attend, attend_back

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
        (_, t, d), w = x.shape, Held(*held)
        rows = x.reshape(-1, d)
        normed1, mean1, rate1 = torch.native_layer_norm(rows, [d], w.scale1, w.shift1, eps)
        mixed, laid, weights, _ = attend(product(normed1, w.qkv, w.qkv_bias).view(-1, t, 3, heads, d // heads))
        mixed = mixed.view(-1, d)
        middle = product(mixed, w.out, w.out_bias, rows)
        normed2, mean2, rate2 = torch.native_layer_norm(middle, [d], w.scale2, w.shift2, eps)
        risen = product(normed2, w.rise, w.rise_bias)
        active = F.gelu(risen, approximate=approximate)
        kept = [rows, normed1, mean1, rate1, laid, mixed, middle, normed2, mean2, rate2, risen, active, *weights]
        ctx.save_for_backward(*held, *kept)
        ctx.shape, ctx.approximate = x.shape, approximate
        found: Tensor = torch.ops.aten._unsafe_view(product(active, w.fall, w.fall_bias, middle), x.shape)  # no view, which FSDP warns of
        return found

    @staticmethod
    @once_differentiable  # type: ignore[misc]
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        d, number = ctx.shape[-1], len(Held._fields)
        w, kept = Held(*ctx.saved_tensors[:number]), ctx.saved_tensors[number:]
        wanted = ctx.needs_input_grad[-number:]
        found = Held(*(room(tensor) if want else None for tensor, want in zip(w, wanted, strict=True)))
        return back(gradients[0].reshape(-1, d), w, found, ctx, *kept).view(ctx.shape), None, None, None, *found


def back(
    change: Tensor,
    w: Held,
    found: Held,
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
) -> Tensor:
    """The gradient of a block's input (M, D) from that of its output; those of the weights are added to `found`."""
    add(found.fall, found.fall_bias, change, active)
    inner = torch.ops.aten.gelu_backward(product(change, w.fall.t()), risen, approximate=ctx.approximate)
    add(found.rise, found.rise_bias, inner, normed2)
    change = norm_back(product(inner, w.rise.t()), change, middle, mean2, rate2, w.scale2, w.shift2, found.scale2, found.shift2)
    add(found.out, found.out_bias, change, mixed)
    packed = attend_back(product(change, w.out.t()).view(ctx.shape), laid, list(weights), []).reshape(len(change), -1)
    add(found.qkv, found.qkv_bias, packed, normed1)
    return norm_back(product(packed, w.qkv.t()), change, rows, mean1, rate1, w.scale1, w.shift1, found.scale1, found.shift1)


def room(weight: Tensor) -> Tensor:
    """Zeros like a weight; a matrix (O, I) with more rows than columns lies on its side, as MKL fills it faster."""
    tall = weight.ndim == 2 and len(weight) > weight.size(1)
    return weight.new_zeros(weight.t().shape).t() if tall else torch.zeros_like(weight)


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None, added: Tensor | None = None) -> Tensor:
    """x (M, I) weightᵀ (I, O) + bias (O,) + added (M, O), by oneDNN."""
    found: Tensor = torch.ops.mkldnn._linear_pointwise.default(x, weight, bias, "none", [], "")  # without its name it is sought each time
    return found if added is None else found.add_(added)


def add(weight: Tensor | None, bias: Tensor | None, change: Tensor, x: Tensor) -> None:
    """To the gradients of a layer's weight (O, I) and bias (O,), what its output's gradient (M, O) and its input (M, I) make of them."""
    if weight is not None:
        weight.addmm_(change.t(), x)
    if bias is not None:
        bias.add_(change.sum(0))


def norm_back(
    change: Tensor,
    onward: Tensor,
    x: Tensor,
    mean: Tensor,
    rate: Tensor,
    scale: Tensor,
    shift: Tensor | None,
    to_scale: Tensor | None,
    to_shift: Tensor | None,
) -> Tensor:
    """The gradient of x (M, D) from that of its norm, and from that of x itself as it goes on."""
    wanted = [True, to_scale is not None, to_shift is not None]
    found, *sums = torch.ops.aten.native_layer_norm_backward(change, x, [x.size(-1)], mean, rate, scale, shift, wanted)
    for total, part in zip((to_scale, to_shift), sums, strict=True):
        if total is not None:
            total.add_(part)
    out: Tensor = found.add_(onward)
    return out
