"""Bias and GELU (Hendrycks & Gimpel, 2016) in one Triton kernel per direction, without PyTorch's costly erf.

Abramowitz & Stegun 26.2.17 gives the normal distribution function to 7.5e-8, far below what bf16 can tell apart, for one
exponential and a short polynomial, and the exponential is what the derivative needs too. Only the product before the bias is
kept for the backward pass. Shapes: N rows, C channels.
"""

# mypy: disable-error-code="import-not-found, untyped-decorator, no-untyped-def"

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS, COLUMNS = 8, 256
"""The tile that eight warps take at once, 128 bits per thread: few registers, so many programs hide the memory's delay."""


@triton.jit
def _normal(x):
    """The normal density, and the distribution function's tail beyond |x|."""
    density = tl.exp2(x * x * -0.7213475204444817 - 1.3257480647361595)  # exp(-x² / 2) / sqrt(2 pi)
    root = tl.rsqrt(1.0 + 0.2316419 * tl.abs(x))
    t = root * root  # a reciprocal by division would cost several instructions
    tail = ((((1.330274429 * t - 1.821255978) * t + 1.781477937) * t - 0.356563782) * t + 0.319381530) * t * density
    return density, tail


@triton.jit
def _vector(bias, columns, C, COLUMNS: tl.constexpr):
    shift = tl.zeros([COLUMNS], tl.float32)
    if bias is not None:
        shift = tl.load(bias + columns, mask=columns < C, other=0.0)
    return shift[None, :]


@triton.jit
def _forward(h, bias, out, N, C, TILES: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    place = tl.arange(0, ROWS)[:, None] * C + columns[None, :]
    shift = _vector(bias, columns, C, COLUMNS)
    for tile in range(0, TILES):
        first = (tl.program_id(1) * TILES + tile) * ROWS
        base = first.to(tl.int64) * C
        inside = ((first + tl.arange(0, ROWS)) < N)[:, None] & (columns < C)[None, :]
        x = tl.load(h + base + place, mask=inside, other=0.0).to(tl.float32) + shift
        _, tail = _normal(x)
        tl.store(out + base + place, (tl.maximum(x, 0.0) - tl.abs(x) * tail).to(out.dtype.element_ty), mask=inside)


@triton.jit
def _backward(h, bias, dout, dh, partial, N, C, TILES: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    place = tl.arange(0, ROWS)[:, None] * C + columns[None, :]
    shift = _vector(bias, columns, C, COLUMNS)
    total = tl.zeros([ROWS, COLUMNS], tl.float32)  # summed over rows once, at the end
    for tile in range(0, TILES):
        first = (tl.program_id(1) * TILES + tile) * ROWS
        base = first.to(tl.int64) * C
        inside = ((first + tl.arange(0, ROWS)) < N)[:, None] & (columns < C)[None, :]
        gradient = tl.load(dout + base + place, mask=inside, other=0.0).to(tl.float32)
        x = tl.load(h + base + place, mask=inside, other=0.0).to(tl.float32) + shift
        density, tail = _normal(x)
        gradient *= tl.where(x >= 0, 1.0 - tail, tail) + x * density
        tl.store(dh + base + place, gradient.to(dh.dtype.element_ty), mask=inside)
        total += gradient
    tl.store(partial + tl.program_id(1) * C + columns, tl.sum(total, 0), mask=columns < C)


def _launch(h: Tensor) -> tuple[tuple[int, int], dict[str, int]]:
    """The grid, with at most 256 blocks of rows, and the kernels' constants."""
    c = h.size(-1)
    n = h.numel() // c
    tiles = triton.next_power_of_2(triton.cdiv(n, 256 * ROWS))
    grid = triton.cdiv(c, COLUMNS), triton.cdiv(n, tiles * ROWS)
    return grid, {"N": n, "C": c, "TILES": tiles, "ROWS": ROWS, "COLUMNS": COLUMNS, "num_warps": 8}


@torch.library.custom_op("weft::biased_gelu", mutates_args=())
def biased_gelu(h: Tensor, bias: Tensor | None) -> Tensor:
    """h (..., C), bias (C,) fp32 -> gelu(h + bias) in the precision of h."""
    h = h.contiguous()
    out = torch.empty_like(h)
    grid, settings = _launch(h)
    _forward[grid](h, bias, out, **settings)
    return out


@biased_gelu.register_fake
def _(h: Tensor, bias: Tensor | None) -> Tensor:
    return h.new_empty(h.shape)


@torch.library.custom_op("weft::biased_gelu_backward", mutates_args=())
def biased_gelu_backward(dout: Tensor, h: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    """The gradient of h, and that of the bias as one sum per block of rows."""
    h = h.contiguous()
    dh = torch.empty_like(h)
    grid, settings = _launch(h)
    partial = h.new_empty(grid[1], h.size(-1), dtype=torch.float32)
    _backward[grid](h, bias, dout.contiguous(), dh, partial, **settings)
    return dh, partial


@biased_gelu_backward.register_fake
def _(dout: Tensor, h: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    return h.new_empty(h.shape), h.new_empty(_launch(h)[0][1], h.size(-1), dtype=torch.float32)


def _save(ctx, inputs, output) -> None:
    ctx.save_for_backward(*inputs)


def _differentiate(ctx, gradient):
    h, bias = ctx.saved_tensors
    dh, partial = torch.ops.weft.biased_gelu_backward(gradient, h, bias)
    return dh, None if bias is None else partial.sum(0)


biased_gelu.register_autograd(_differentiate, setup_context=_save)
