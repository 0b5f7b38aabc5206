"""A narrow pre-norm Transformer block with dropout as one operation per direction, made of the kernels of `block_kernels`.

Norms, biases, activation, dropout and residuals happen where a product is made, or in one pass behind it. Weights come twice: as they
are, for the sake of their gradients, which stay fp32, and rounded to the type of the stream, for the products.
Shapes: B batch, T time, D width, M = B T rows, I inner width.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import triton
from torch import Tensor, nn

from weft.layers import block_kernels as kernels
from weft.layers import short_attention as short
from weft.layers.attention import SelfAttention

SHAPES: dict[str, dict[str, int]] = {
    "product": {"ROWS": 64, "COLS": 128, "num_warps": 4},
    "out": {"ROWS": 64, "CHUNK": 64, "STAGES": 2, "num_warps": 8, "maxnreg": 128},
    "fall": {"ROWS": 16, "CHUNK": 0, "STAGES": 1, "num_warps": 4},
    "norm_backward": {"ROWS": 64, "PIECE": 16, "STAGES": 1, "num_warps": 4},
    "weights": {"HIGH": 128, "WIDE": 256, "ROWS": 32, "STAGES": 6, "num_warps": 8},
}
"""Sizes of the kernels' tiles. Without a CHUNK the library makes the product, and the kernel does the rest."""
PROGRAMS = 264
"""Of a product: two for each of the GPU's processors, so that one computes while the other reads and writes."""
SPLITS = 5
"""Stretches of rows for the gradients of weights: with them there are nearly as many programs as the GPU has processors."""
WIDTHS = (128, 256)


def fits(block: Any, x: Tensor) -> bool:
    """Whether the kernels serve this block and stream (B, T, D): GPT-2's kind of block, narrow, on few tokens."""
    attention, feed = block.attention, block.feedforward
    norms = [block.norm1, block.norm2]
    linear = [attention.qkv, attention.out, getattr(feed, "rise", None), getattr(feed, "fall", None)]
    return (
        block.order == "pre"
        and x.is_cuda
        and x.dtype == torch.bfloat16
        and x.size(1) <= short.LIMIT
        and x.size(2) in WIDTHS
        and type(attention) is SelfAttention
        and attention.causal
        and not attention.norm_heads
        and attention.groups == attention.heads
        and attention.head in (16, 32, 64, 128)
        and getattr(feed, "activation", "") == "gelu"
        and all(type(norm) is nn.LayerNorm for norm in norms)
        and all(type(layer) is nn.Linear and layer.weight.dtype == torch.float32 for layer in linear)
        and feed.rise.out_features % 256 == 0
        and feed.rise.out_features == feed.fall.in_features
        and x.numel() // x.size(2) * max(feed.rise.out_features, 1024) < 2**31  # places are counted with 32 bits
        and all(part.weight is not None and part.bias is not None for part in (*norms, *linear))
    )


def fused_block(block: Any, x: Tensor) -> Tensor:
    """x (B, T, D) -> (B, T, D)."""
    attention, feed = block.attention, block.feedforward
    parts = (block.norm1, attention.qkv, attention.out, block.norm2, feed.rise, feed.fall)
    parameters = [p for part in parts for p in (part.weight, part.bias)]
    products = [part.weight.detach().to(x.dtype) for part in (attention.qkv, attention.out, feed.rise, feed.fall)]
    seeds = torch.randint(-(2**31), 2**31 - 1, (3,), dtype=torch.int32, device=x.device)
    shares = [block.dropout.share, attention.dropout]
    out: Tensor = run_block(x, parameters, products, seeds, attention.heads, shares, block.norm1.eps)[0]
    return out


def _dropout(share: float) -> tuple[int, float]:
    return int((0.5 - share) * 2**24), 1 / (1 - share) if share < 1 else 0.0


@torch.library.custom_op("weft::block", mutates_args=())
def run_block(
    x: Tensor, parameters: list[Tensor], products: list[Tensor], seeds: Tensor, heads: int, shares: list[float], eps: float
) -> list[Tensor]:
    """x (B, T, D) -> the block's output, and what its backward pass needs."""
    b, t, d = x.shape
    m, inner = b * t, products[2].size(0)
    scale1, shift1, _, bqkv, _, bo, scale2, shift2, _, b1, _, b2 = parameters
    wqkv, wo, w1, w2 = products
    x = x.contiguous()
    out, normed1, middle, normed2 = (torch.empty_like(x) for _ in range(4))
    qkv, hidden, slopes = x.new_empty(b, t, 3, heads, d // heads), x.new_empty(m, inner), x.new_empty(m, inner)
    kernels.normalise[(triton.cdiv(m, 16),)](x, scale1, shift1, normed1, m, eps, D=d, ROWS=16)
    multiply(normed1, wqkv, bqkv, qkv, qkv, m, "")
    mixed, sums = short.short_attention(qkv, seeds[2:], shares[1])
    add_residual("out", mixed, wo, bo, x, seeds, scale2, shift2, middle, normed2, eps, shares[0])
    multiply(normed2, w1, b1, hidden, slopes, m, "forward")
    add_residual("fall", hidden, w2, b2, middle, seeds[1:], scale2, shift2, out, None, eps, shares[0])
    return [out, normed1, qkv, mixed, sums, middle, normed2, hidden, slopes]


@run_block.register_fake
def _(
    x: Tensor, parameters: list[Tensor], products: list[Tensor], seeds: Tensor, heads: int, shares: list[float], eps: float
) -> list[Tensor]:
    b, t, d = x.shape
    stream = [x.new_empty(b, t, d) for _ in range(5)]
    qkv, sums = x.new_empty(b, t, 3, heads, d // heads), x.new_empty(b * heads, 128, dtype=torch.float32)
    inner = [x.new_empty(b * t, products[2].size(0)) for _ in range(2)]
    return [stream[0], stream[1], qkv, stream[2], sums, stream[3], stream[4], *inner]


@torch.library.custom_op("weft::block_backward", mutates_args=())
def block_backward(
    dout: Tensor, x: Tensor, kept: list[Tensor], norms: list[Tensor], products: list[Tensor], seeds: Tensor, shares: list[float], eps: float
) -> tuple[Tensor, Tensor]:
    """The gradient of x (B, T, D), and those of weights, biases and norms laid end to end, in the order of `sizes`."""
    normed1, qkv, mixed, sums, middle, normed2, hidden, slopes = kept
    wqkv, wo, w1, w2 = products
    m, d, inner = len(hidden), x.size(2), hidden.size(1)
    dout, x = dout.contiguous(), x.contiguous()
    dx, dfall, dmiddle, dproduct, drise = (torch.empty_like(like) for like in (x, x, x, x, hidden))
    parts = x.new_empty(triton.cdiv(m, SHAPES["norm_backward"]["ROWS"]), 4, d, dtype=torch.float32)
    if shares[0]:
        kernels.drop[(triton.cdiv(x.numel(), 2048),)](dout, seeds[1:], dfall, x.numel(), *_dropout(shares[0]), BLOCK=2048)
    else:
        dfall = dout
    multiply(dfall, w2, norms[1], drise, slopes, m, "backward")
    norm_backward(drise @ w1, middle, dout, norms[1], dmiddle, dproduct, seeds, parts[:, 2:], eps, shares[0])
    dmixed = (dproduct.view(m, d) @ wo).view_as(x)
    dqkv = short.short_attention_backward(dmixed, mixed, sums, qkv, seeds[2:], shares[1])
    norm_backward(dqkv.view(m, 3 * d) @ wqkv, x, dmiddle, norms[0], dx, None, seeds, parts, eps, 0.0)
    gradients = x.new_empty(sum(sizes(d, inner)), dtype=torch.float32)
    add_weights((dqkv, normed1, dproduct, mixed, drise, normed2, dfall, hidden), gradients[: -4 * d], m, d, inner)
    add_up(parts, gradients[-4 * d :])
    return dx, gradients


def multiply(a: Tensor, weight: Tensor, bias: Tensor, out: Tensor, slopes: Tensor, m: int, gelu: str) -> None:
    """`kernels.product` with as many programs as stay on the GPU together."""
    n = out.numel() // m
    shape = SHAPES["product"] | {"COLS": math.gcd(n, SHAPES["product"]["COLS"])}
    tiles = n // shape["COLS"]
    groups = max(1, PROGRAMS // tiles)
    kernels.product[(groups * tiles,)](a, weight, bias, slopes, out, m, groups * shape["ROWS"], K=a.size(-1), N=n, GELU=gelu, **shape)


def add_residual(
    name: str, a: Tensor, weight: Tensor, bias: Tensor, x: Tensor, seed: Tensor, scale: Tensor, shift: Tensor,
    out: Tensor, normed: Tensor | None, eps: float, share: float,
) -> None:  # fmt: skip
    """`kernels.add_residual` in the named shape."""
    shape, d, k = SHAPES[name], x.size(-1), a.size(-1)
    m = x.numel() // d
    if not shape["CHUNK"]:
        a = a.view(m, k) @ weight.t()
    tensors = (a, weight, bias, x, seed, scale, shift, out, out if normed is None else normed)
    kernels.add_residual[(triton.cdiv(m, shape["ROWS"]),)](
        *tensors, m, eps, *_dropout(share), D=d, K=k, DROP=share > 0, NORM=normed is not None, **shape
    )


def norm_backward(
    gradient: Tensor, x: Tensor, residual: Tensor, scale: Tensor, dx: Tensor, dproduct: Tensor | None, seed: Tensor, parts: Tensor,
    eps: float, share: float,
) -> None:  # fmt: skip
    """`kernels.norm_backward`; the sums of scale and shift go to the first two of each of the parts (programs, ..., D)."""
    d = x.size(-1)
    tensors = (gradient, x, residual, scale, dx, dx if dproduct is None else dproduct, seed, parts)
    numbers = (x.numel() // d, eps, *_dropout(share))
    kernels.norm_backward[(len(parts),)](*tensors, *numbers, D=d, DROP=share > 0, AGAIN=dproduct is not None, **SHAPES["norm_backward"])


def add_weights(factors: tuple[Tensor, ...], out: Tensor, m: int, d: int, inner: int) -> None:
    """Gradients of the four products' weights and biases, from those of their outputs and from their inputs in turn."""
    shape = SHAPES["weights"]
    tiles = (4 * d * d + 2 * d * inner) // (shape["HIGH"] * min(shape["WIDE"], d))
    share = triton.cdiv(triton.cdiv(m, SPLITS), shape["ROWS"]) * shape["ROWS"]
    parts = out.new_empty(SPLITS, out.numel())
    kernels.weights[(tiles, SPLITS)](*factors, parts, m, D=d, INNER=inner, SHARE=share, **shape | {"WIDE": min(shape["WIDE"], d)})
    add_up(parts, out)


def add_up(parts: Tensor, out: Tensor) -> None:
    """parts (N, ...) -> their sum in out."""
    count, size = len(parts), out.numel()
    block = max(16, 4096 // triton.next_power_of_2(count))
    kernels.add_up[(triton.cdiv(size, block),)](parts, out, count, size, COUNT=triton.next_power_of_2(count), BLOCK=block)


@block_backward.register_fake
def _(
    dout: Tensor, x: Tensor, kept: list[Tensor], norms: list[Tensor], products: list[Tensor], seeds: Tensor, shares: list[float], eps: float
) -> tuple[Tensor, Tensor]:
    return torch.empty_like(x), x.new_empty(sum(sizes(x.size(2), products[2].size(0))), dtype=torch.float32)


def sizes(d: int, inner: int) -> list[int]:
    """Of the gradients that are laid end to end: four weights, their biases, scale and shift of both norms."""
    return [3 * d * d, d * d, d * inner, d * inner, 3 * d, d, inner, d, d, d, d, d]


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    x, parameters, products, seeds, ctx.heads, ctx.shares, ctx.eps = inputs
    ctx.save_for_backward(x, seeds, parameters[0], parameters[6], *products, *output[1:])
    ctx.set_materialize_grads(False)


def _differentiate(ctx: Any, gradients: list[Tensor | None]) -> Any:
    x, seeds, scale1, scale2, *rest = ctx.saved_tensors
    products, kept = rest[:4], rest[4:]
    dx, flat = block_backward(gradients[0], x, kept, [scale1, scale2], products, seeds, ctx.shares, ctx.eps)
    d, inner = x.size(2), products[2].size(0)
    wqkv, wo, w1, w2, bqkv, bo, b1, b2, scale1, shift1, scale2, shift2 = flat.split(sizes(d, inner))
    weights = wqkv.view(3 * d, d), wo.view(d, d), w1.view(inner, d), w2.view(d, inner)
    found = [scale1, shift1, weights[0], bqkv, weights[1], bo, scale2, shift2, weights[2], b1, weights[3], b2]
    return dx, found, [None] * 4, None, None, None, None


run_block.register_autograd(_differentiate, setup_context=_save)
