"""Narrow pre-norm Transformer blocks with dropout, one after another, as one operation per direction, made of `narrow_block_kernels`.

Norms, biases, activation, dropout and residuals happen where a product is made, or in one pass behind it. Weights come twice: as they
are, for the sake of their gradients, which stay fp32, and rounded to the type of the stream, for the products.
Shapes: B batch, T time, D width, M = B T rows, I inner width.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import triton
from torch import Tensor, nn

from weft.kernels.triton import narrow_block_kernels as kernels
from weft.kernels.triton import short_attention as short

SHAPES: dict[str, dict[str, int]] = {
    "product": {"ROWS": 64, "COLS": 128, "num_warps": 4},
    "out": {"ROWS": 64, "CHUNK": 64, "STAGES": 2, "num_warps": 8, "maxnreg": 128},
    "down": {"ROWS": 16, "CHUNK": 0, "STAGES": 1, "num_warps": 4},
    "norm_backward": {"ROWS": 64, "PIECE": 16, "STAGES": 1, "num_warps": 4},
    "weights": {"HIGH": 128, "WIDE": 256, "ROWS": 32, "STAGES": 6, "num_warps": 8},
}
"""Sizes of the kernels' tiles. Without a CHUNK the library makes the product, and the kernel does the rest."""
PROGRAMS = 264
"""Of a product: two for each of the GPU's processors, so that one computes while the other reads and writes."""
SPLITS = 5
"""Stretches of rows for the gradients of weights: with them there are nearly as many programs as the GPU has processors."""
KEPT = 8
"""Tensors of each block that its backward pass needs."""


def fused_blocks(blocks: Sequence[Any], x: Tensor) -> Tensor:
    """x (B, T, D) -> (B, T, D), through all of them in turn."""
    parts = [part for b in blocks for part in (b.norm1, b.attention.qkv, b.attention.out, b.norm2, b.feedforward.up, b.feedforward.down)]
    parameters = [p for part in parts for p in (part.weight, part.bias)]
    products = [part.weight.detach().to(x.dtype) for part in parts if type(part) is nn.Linear]
    seeds = torch.randint(-(2**31), 2**31 - 1, (3 * len(blocks),), dtype=torch.int32, device=x.device)
    first = blocks[0]
    shares = [first.dropout.share, first.attention.dropout]
    out: Tensor = run_blocks(x, parameters, products, seeds, first.attention.heads, shares, first.norm1.eps)[0]
    return out


def _dropout(share: float) -> tuple[int, float]:
    return int((0.5 - share) * 2**24), 1 / (1 - share) if share < 1 else 0.0


@torch.library.custom_op("weft::blocks", mutates_args=())
def run_blocks(
    x: Tensor, parameters: list[Tensor], products: list[Tensor], seeds: Tensor, heads: int, shares: list[float], eps: float
) -> list[Tensor]:
    """x (B, T, D) -> the output of each block, the last one's first, then what the backward pass needs, KEPT tensors of each block."""
    (b, t, d), m, inner, number = x.shape, x.size(0) * x.size(1), products[2].size(0), len(products) // 4
    x = x.contiguous()
    normed, outs, kept = torch.empty_like(x), [], []
    kernels.normalise[(triton.cdiv(m, 16),)](x, parameters[0], parameters[1], normed, m, eps, D=d, ROWS=16)
    for i in range(number):
        (wqkv, wo, w1, w2), seed = products[4 * i : 4 * i + 4], seeds[3 * i :]
        _, _, _, bqkv, _, bo, scale2, shift2, _, b1, _, b2 = parameters[12 * i : 12 * i + 12]
        middle, normed2, out = (torch.empty_like(x) for _ in range(3))
        following = torch.empty_like(x) if i + 1 < number else None
        qkv, hidden, slopes = x.new_empty(b, t, 3, heads, d // heads), x.new_empty(m, inner), x.new_empty(m, inner)
        multiply(normed, wqkv, bqkv, qkv, qkv, m, "")
        mixed, sums = short.short_attention(qkv, seed[2:], shares[1])
        add_residual("out", mixed, wo, bo, x, seed, scale2, shift2, middle, normed2, eps, shares[0])
        multiply(normed2, w1, b1, hidden, slopes, m, "forward")
        scale, shift = parameters[12 * (i + 1) : 12 * (i + 1) + 2] or (scale2, shift2)
        add_residual("down", hidden, w2, b2, middle, seed[1:], scale, shift, out, following, eps, shares[0])
        kept += [normed, qkv, mixed, sums, middle, normed2, hidden, slopes]
        outs.append(out)
        x, normed = out, out if following is None else following
    return [*reversed(outs), *kept]


@run_blocks.register_fake
def _(
    x: Tensor, parameters: list[Tensor], products: list[Tensor], seeds: Tensor, heads: int, shares: list[float], eps: float
) -> list[Tensor]:
    (b, t, d), number = x.shape, len(products) // 4
    found = [x.new_empty(b, t, d) for _ in range(number)]
    for _ in range(number):
        qkv, sums = x.new_empty(b, t, 3, heads, d // heads), x.new_empty(b * heads, 128, dtype=torch.float32)
        normed1, mixed, middle, normed2 = (x.new_empty(b, t, d) for _ in range(4))
        hidden, slopes = (x.new_empty(b * t, products[2].size(0)) for _ in range(2))
        found += [normed1, qkv, mixed, sums, middle, normed2, hidden, slopes]
    return found


@torch.library.custom_op("weft::blocks_backward", mutates_args=())
def blocks_backward(
    dout: Tensor, given: list[Tensor], kept: list[Tensor], scales: list[Tensor], products: list[Tensor], seeds: Tensor, shares: list[float],
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradient of x (B, T, D); those of weights and biases (blocks, sum of `sizes`); those of the norms (blocks, 4, D).

    given: what each block was given, the last one first. scales: those of the blocks' norms, two for each.
    """
    dout = dout.contiguous()
    d, m, inner, number = dout.size(2), dout.size(0) * dout.size(1), products[2].size(0), len(products) // 4
    parts = dout.new_empty(triton.cdiv(m, SHAPES["norm_backward"]["ROWS"]), number, 4, d, dtype=torch.float32)
    gradients, norms = dout.new_empty(number, sum(sizes(d, inner)), dtype=torch.float32), parts.new_empty(number, 4, d)
    ddown = dout
    if shares[0]:
        ddown = torch.empty_like(dout)
        kernels.drop[(triton.cdiv(dout.numel(), 2048),)](dout, seeds[-2:], ddown, dout.numel(), *_dropout(shares[0]), BLOCK=2048)
    for i, x in zip(reversed(range(number)), given, strict=True):
        x = x.contiguous()
        normed1, qkv, mixed, sums, middle, normed2, hidden, slopes = kept[KEPT * i : KEPT * (i + 1)]
        (wqkv, wo, w1, w2), (scale1, scale2), seed = products[4 * i : 4 * i + 4], scales[2 * i : 2 * i + 2], seeds[3 * i :]
        dx, dmiddle, dproduct, dup = (torch.empty_like(like) for like in (x, x, x, hidden))
        multiply(ddown, w2, scale2, dup, slopes, m, "backward")
        norm_backward(dup @ w1, middle, dout, scale2, dmiddle, dproduct, seed, parts[:, i, 2:], eps, shares[0])
        dmixed = (dproduct.view(m, d) @ wo).view_as(x)
        dqkv = short.short_attention_backward(dmixed, mixed, sums, qkv, seed[2:], shares[1])
        before = torch.empty_like(x) if i and shares[0] else None
        earlier = seeds[3 * (i - 1) + 1 :] if i else seed
        norm_backward(dqkv.view(m, 3 * d) @ wqkv, x, dmiddle, scale1, dx, before, earlier, parts[:, i], eps, shares[0])
        add_weights((dqkv, normed1, dproduct, mixed, dup, normed2, ddown, hidden), gradients[i], m, d, inner)
        dout, ddown = dx, dx if before is None else before
    add_up(parts, norms)
    return dout, gradients, norms


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
    tensors = (gradient, x, residual, scale, dx, dx if dproduct is None else dproduct, seed, parts, parts.stride(0))
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


@blocks_backward.register_fake
def _(
    dout: Tensor, given: list[Tensor], kept: list[Tensor], scales: list[Tensor], products: list[Tensor], seeds: Tensor, shares: list[float],
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    d, number = dout.size(2), len(products) // 4
    flat = sum(sizes(d, products[2].size(0)))
    return torch.empty_like(dout), dout.new_empty(number, flat, dtype=torch.float32), dout.new_empty(number, 4, d, dtype=torch.float32)


def sizes(d: int, inner: int) -> list[int]:
    """Of a block's gradients that are laid end to end: four weights, then their biases."""
    return [3 * d * d, d * d, d * inner, d * inner, 3 * d, d, inner, d]


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    x, parameters, products, seeds, _, ctx.shares, ctx.eps = inputs
    ctx.number = number = len(products) // 4
    scales = [p for i in range(0, len(parameters), 12) for p in (parameters[i], parameters[i + 6])]
    ctx.save_for_backward(seeds, *scales, *products, *output[1:number], x, *output[number:])
    ctx.set_materialize_grads(False)


def _differentiate(ctx: Any, gradients: list[Tensor | None]) -> Any:
    seeds, *rest = ctx.saved_tensors
    number = ctx.number
    scales, products, given, kept = (rest[a * number : b * number] for a, b in ((0, 2), (2, 6), (6, 7), (7, 7 + KEPT)))
    dx, flat, norms = blocks_backward(gradients[0], given, kept, scales, products, seeds, ctx.shares, ctx.eps)
    d, inner, found = dx.size(2), products[2].size(0), []
    for own, (scale1, shift1, scale2, shift2) in zip(flat.unbind(), (norm.unbind() for norm in norms.unbind()), strict=True):
        wqkv, wo, w1, w2, bqkv, bo, b1, b2 = own.split(sizes(d, inner))
        found += [scale1, shift1, wqkv.view(3 * d, d), bqkv, wo.view(d, d), bo]
        found += [scale2, shift2, w1.view(inner, d), b1, w2.view(d, inner), b2]
    return dx, found, [None] * len(products), None, None, None, None


run_blocks.register_autograd(_differentiate, setup_context=_save)
