"""A residual sum and the layer norm after it, one Triton kernel per direction.

sum = x + dropout(y + bias), normed = layer_norm(sum) * gain + shift. Each direction reads and writes every number once. The
norm's statistics are those of the sum as stored, which is what the backward pass reads. Dropout is a hash of (seed, row,
column), computed again in the backward pass. Shapes: N rows, D width.
"""

# mypy: disable-error-code="import-not-found, untyped-decorator, no-untyped-def"

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from weft.layers.short_attention import _kept

LIMIT = 4096
"""The widest row a program holds."""


@triton.jit(do_not_specialize_on_alignment=["seed"])  # seeds are elements of one tensor
def _forward(x, y, bias, gain, shift, seed, total, normed, moments, N, D, threshold, keep, eps, P: tl.constexpr, ROWS: tl.constexpr):
    first = tl.program_id(0) * ROWS
    rows, columns = first + tl.arange(0, ROWS), tl.arange(0, P)
    within = columns < D
    inside = (rows < N)[:, None] & within[None, :]
    base = first.to(tl.int64) * D
    place = tl.arange(0, ROWS)[:, None] * D + columns[None, :]
    branch = tl.load(y + base + place, mask=inside, other=0.0).to(tl.float32)
    stream = tl.load(x + base + place, mask=inside, other=0.0).to(tl.float32)
    if bias is not None:
        branch += tl.load(bias + columns, mask=within, other=0.0)[None, :]
    if seed is not None:
        branch = tl.where(_kept(tl.load(seed), 0, rows, columns, threshold), branch * keep, 0.0)
    stored = (stream + branch).to(total.dtype.element_ty)
    tl.store(total + base + place, stored, mask=inside)
    value = stored.to(tl.float32)
    mean = tl.sum(value, 1) / D
    centred = tl.where(within[None, :], value - mean[:, None], 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, 1) / D + eps)
    tl.store(moments + rows, mean, mask=rows < N)
    tl.store(moments + N + rows, scale, mask=rows < N)
    result = centred * scale[:, None] * tl.load(gain + columns, mask=within, other=0.0)[None, :]
    if shift is not None:
        result += tl.load(shift + columns, mask=within, other=0.0)[None, :]
    tl.store(normed + base + place, result.to(normed.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize_on_alignment=["seed"])
def _backward(
    dsum, dnormed, total, moments, gain, seed, dx, dy, sums, N, D, threshold, keep, P: tl.constexpr, ROWS: tl.constexpr, TILES: tl.constexpr
):
    columns = tl.arange(0, P)
    within = columns < D
    place = tl.arange(0, ROWS)[:, None] * D + columns[None, :]
    factor = tl.load(gain + columns, mask=within, other=0.0)
    dbias = tl.zeros([ROWS, P], tl.float32)  # summed over rows once, at the end
    dgain, dshift = dbias, dbias
    if seed is not None:
        start = tl.load(seed)
    for tile in range(0, TILES):
        first = (tl.program_id(0) * TILES + tile) * ROWS
        rows = first + tl.arange(0, ROWS)
        inside = (rows < N)[:, None] & within[None, :]
        base = first.to(tl.int64) * D
        incoming = tl.load(dnormed + base + place, mask=inside, other=0.0).to(tl.float32)
        value = tl.load(total + base + place, mask=inside, other=0.0).to(tl.float32)
        mean = tl.load(moments + rows, mask=rows < N, other=0.0)
        scale = tl.load(moments + N + rows, mask=rows < N, other=0.0)[:, None]
        normal = (value - mean[:, None]) * scale
        scaled = incoming * factor[None, :]
        level = tl.sum(scaled, 1) / D
        slope = tl.sum(scaled * normal, 1) / D
        gradient = (scaled - level[:, None] - normal * slope[:, None]) * scale
        if dsum is not None:
            gradient += tl.load(dsum + base + place, mask=inside, other=0.0).to(tl.float32)
        tl.store(dx + base + place, gradient.to(dx.dtype.element_ty), mask=inside)
        if seed is not None:
            gradient = tl.where(_kept(start, 0, rows, columns, threshold), gradient * keep, 0.0)
            tl.store(dy + base + place, gradient.to(dy.dtype.element_ty), mask=inside)
        dbias += gradient
        dgain += incoming * normal
        dshift += incoming
    sums += tl.program_id(0) * 3 * D + columns
    tl.store(sums, tl.sum(dbias, 0), mask=within)
    tl.store(sums + D, tl.sum(dgain, 0), mask=within)
    tl.store(sums + 2 * D, tl.sum(dshift, 0), mask=within)


def _constants(x: Tensor, dropout: float, tile: int) -> dict[str, Any]:
    """What both kernels are told: sizes, the rows of a tile of so many elements, threshold of the hash, factor of what is kept."""
    d = x.size(-1)
    padded = triton.next_power_of_2(d)
    sizes = {"N": x.numel() // d, "D": d, "P": padded, "ROWS": max(1, tile // padded), "num_warps": 8}
    return {**sizes, "threshold": int(dropout * 2**32), "keep": 1.0 / (1.0 - dropout)}


def _backward_constants(x: Tensor, dropout: float) -> tuple[int, dict[str, Any]]:
    """At most 256 programs, and constants for tiles so small that their three running sums stay in registers."""
    constants = _constants(x, dropout, 2048)
    n, rows = constants["N"], constants["ROWS"]
    tiles = triton.next_power_of_2(triton.cdiv(n, 256 * rows))
    return triton.cdiv(n, tiles * rows), {**constants, "TILES": tiles}


@torch.library.custom_op("weft::residual_norm", mutates_args=())
def residual_norm(
    x: Tensor, y: Tensor, bias: Tensor | None, gain: Tensor, shift: Tensor | None, seed: Tensor | None, dropout: float, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """x and y (..., D), bias, gain and shift (D,) fp32, seed (1,) or None for no dropout -> sum, normed, moments (2, N)."""
    x = x.contiguous()
    total, normed = torch.empty_like(x), torch.empty_like(x)
    constants = _constants(x, dropout, 4096)
    moments = x.new_empty(2, constants["N"], dtype=torch.float32)
    grid = (triton.cdiv(constants["N"], constants["ROWS"]),)
    _forward[grid](x, y.contiguous(), bias, gain, shift, seed, total, normed, moments, eps=eps, **constants)
    return total, normed, moments


@residual_norm.register_fake
def _(
    x: Tensor, y: Tensor, bias: Tensor | None, gain: Tensor, shift: Tensor | None, seed: Tensor | None, dropout: float, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    return x.new_empty(x.shape), x.new_empty(x.shape), x.new_empty(2, x.numel() // x.size(-1), dtype=torch.float32)


@torch.library.custom_op("weft::residual_norm_backward", mutates_args=())
def residual_norm_backward(
    dsum: Tensor | None, dnormed: Tensor, total: Tensor, moments: Tensor, gain: Tensor, seed: Tensor | None, dropout: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of x and y (empty without dropout, where both are the same), and of the vectors as sums (blocks, 3, D)."""
    dx, dy = torch.empty_like(total), torch.empty_like(total) if seed is not None else total.new_empty(0)
    blocks, constants = _backward_constants(total, dropout)
    partial = total.new_empty(blocks, 3, total.size(-1), dtype=torch.float32)
    given = None if dsum is None else dsum.contiguous()
    tensors = given, dnormed.contiguous(), total, moments, gain, seed, dx, dy, partial
    _backward[(blocks,)](*tensors, **constants)
    return dx, dy, partial


@residual_norm_backward.register_fake
def _(
    dsum: Tensor | None, dnormed: Tensor, total: Tensor, moments: Tensor, gain: Tensor, seed: Tensor | None, dropout: float
) -> tuple[Tensor, Tensor, Tensor]:
    blocks, _ = _backward_constants(total, dropout)
    dy = torch.empty_like(total) if seed is not None else total.new_empty(0)
    return torch.empty_like(total), dy, total.new_empty(blocks, 3, total.size(-1), dtype=torch.float32)


def _save(ctx, inputs, output) -> None:
    _, _, bias, gain, shift, seed, ctx.dropout, _ = inputs
    total, _, moments = output
    ctx.biased, ctx.shifted = bias is not None, shift is not None
    ctx.save_for_backward(total, moments, gain, seed)
    ctx.set_materialize_grads(False)


def _differentiate(ctx, dsum, dnormed, _):
    total, moments, gain, seed = ctx.saved_tensors
    dnormed = torch.zeros_like(total) if dnormed is None else dnormed
    dx, dy, partial = torch.ops.weft.residual_norm_backward(dsum, dnormed, total, moments, gain, seed, ctx.dropout)
    dbias, dgain, dshift = partial.sum(0)
    return dx, dx if seed is None else dy, dbias if ctx.biased else None, dgain, dshift if ctx.shifted else None, None, None, None


residual_norm.register_autograd(_differentiate, setup_context=_save)
