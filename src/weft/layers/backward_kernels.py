"""Backward passes of a norm and of an activation as Triton kernels that also make the sums over rows their parameters need.

A compiler makes these sums in kernels of their own, which read everything once more. Here each program adds up the rows that it
reads anyway, in fp32, and writes one row of partial sums; what remains is to add up a few hundred rows.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

PROGRAMS = 528
"""Rows of partial sums: four programs for each of the processors of an H200."""


@triton.jit
def _norm(onward, change, x, mean, rate, scale, back, scales, shifts, rows, width, PASSED: tl.constexpr, BLOCK: tl.constexpr):
    """A program takes every so manieth row. onward is the gradient that goes past the norm, change that of what it gave."""
    program, place = tl.program_id(0), tl.arange(0, BLOCK)
    inside = place < width
    weight = tl.load(scale + place, mask=inside, other=0.0).to(tl.float32)
    by_scale, by_shift = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    for row in range(program, rows, tl.num_programs(0)):
        start = row * tl.full([], width, tl.int64)
        r = tl.load(rate + row)
        unit = (tl.load(x + start + place, mask=inside, other=0.0).to(tl.float32) - tl.load(mean + row)) * r
        unit = tl.where(inside, unit, 0.0)
        d = tl.load(change + start + place, mask=inside, other=0.0).to(tl.float32)
        by_scale += d * unit
        by_shift += d
        d *= weight
        found = (d - tl.sum(d, 0) / width - unit * (tl.sum(d * unit, 0) / width)) * r
        if PASSED:
            found += tl.load(onward + start + place, mask=inside, other=0.0).to(tl.float32)
        tl.store(back + start + place, found.to(back.dtype.element_ty), mask=inside)
    tl.store(scales + program * width + place, by_scale, mask=inside)
    tl.store(shifts + program * width + place, by_shift, mask=inside)


def norm_back(onward: Tensor | None, change: Tensor, x: Tensor, mean: Tensor, rate: Tensor, scale: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """All (N, D) but mean and rate (N,) and scale (D,) -> the gradients of x (N, D), of the scale and of the shift (D,)."""
    (rows, width), programs = x.shape, min(PROGRAMS, len(x))
    back = torch.empty_like(x)
    scales, shifts = torch.empty(2, programs, width, dtype=torch.float32, device=x.device).unbind(0)
    block = triton.next_power_of_2(width)
    given = (x if onward is None else onward, change, x, mean, rate, scale, back, scales, shifts, rows, width)
    _norm[(programs,)](*given, PASSED=onward is not None, BLOCK=block, num_warps=8 if block > 1024 else 4)
    return back, scales.sum(0), shifts.sum(0)


@triton.jit
def _slope(x, TANH: tl.constexpr):
    """The derivative of GELU."""
    if TANH:
        inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
        share = tl.sigmoid(2.0 * inner)
        return share + x * share * (1.0 - share) * 2.0 * 0.7978845608028654 * (1.0 + 0.134145 * x * x)
    return 0.5 * (1.0 + tl.erf(x * 0.7071067811865476)) + x * 0.3989422804014327 * tl.exp(-0.5 * x * x)


@triton.jit
def _gelu(change, x, bias, back, sums, rows, width, each, TANH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """A program takes some columns of `each` rows."""
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < width
    shift = tl.load(bias + column, mask=inside, other=0.0).to(tl.float32)
    total = tl.zeros([COLUMNS], tl.float32)
    first = tl.program_id(1) * each
    for start in range(first, min(first + each, rows), ROWS):
        row = start + tl.arange(0, ROWS)
        valid = (row < min(first + each, rows))[:, None] & inside[None, :]
        place = row[:, None].to(tl.int64) * width + column[None, :]
        z = tl.load(x + place, mask=valid, other=0.0).to(tl.float32) + shift[None, :]
        found = tl.load(change + place, mask=valid, other=0.0).to(tl.float32) * _slope(z, TANH)
        tl.store(back + place, found.to(back.dtype.element_ty), mask=valid)
        total += tl.sum(found, 0)
    tl.store(sums + tl.program_id(1) * width + column, total, mask=inside)


def gelu_back(change: Tensor, x: Tensor, bias: Tensor, tanh: bool) -> tuple[Tensor, Tensor]:
    """change and x (N, D), bias (D,) -> the gradients of x (N, D) and of the bias (D,)."""
    (rows, width), some, columns = x.shape, 16, 256
    strips = triton.cdiv(width, columns)
    parts = max(1, min(triton.cdiv(rows, some), 4 * PROGRAMS // strips))
    each = triton.cdiv(triton.cdiv(rows, parts), some) * some
    parts = triton.cdiv(rows, each)
    back, sums = torch.empty_like(x), torch.empty(parts, width, dtype=torch.float32, device=x.device)
    _gelu[(strips, parts)](change, x, bias, back, sums, rows, width, each, TANH=tanh, ROWS=some, COLUMNS=columns, num_warps=8)
    return back, sums.sum(0)
