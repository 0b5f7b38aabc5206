"""Triton kernels for what stands between the products of a wide Transformer block, in training.

Each pass reads and writes every number once and makes, on its way, the sums over all rows that biases and norms need for their
gradients: one row of partial sums for each stretch of rows, which `narrow_block.add_up` adds in one order, so that no run differs
from another. Shapes: M rows, N columns.
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language import constexpr

from weft.kernels.triton.narrow_block_kernels import gelu


@triton.jit
def activated(x, TANH: constexpr):
    """GELU, exact or by its approximation through tanh, and its slope."""
    if TANH:
        square = x * x
        share = tl.sigmoid(x * (1.59576912 + 0.07135481 * square))
        found, act_grad = x * share, share + x * share * (1.0 - share) * (1.59576912 + 0.21406444 * square)
    else:
        found, act_grad = gelu(x)
    return found, act_grad


@triton.jit
def gelu_forward(x, out, size, TANH: constexpr, BLOCK: constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    found, _slope = activated(tl.load(x + place, place < size, other=0.0).to(tl.float32), TANH)
    tl.store(out + place, found.to(out.dtype.element_ty), place < size)


@triton.jit
def gelu_backward(
    grad_out, x, again, parts, M,
    N: constexpr, TANH: constexpr, RECOMPUTE: constexpr, ROWS: constexpr, COLS: constexpr, EACH: constexpr, STAGES: constexpr,
):  # fmt: skip
    """The gradient (M, N) of GELU's input in the place of its result's, its sums over EACH rows for the bias before it, and GELU AGAIN."""
    cols, begin = tl.program_id(0) * COLS + tl.arange(0, COLS), tl.program_id(1) * EACH
    sums = tl.zeros([ROWS, COLS], tl.float32)
    for first in tl.range(begin, begin + EACH, ROWS, num_stages=STAGES):
        rows = first + tl.arange(0, ROWS)
        inside, place = (rows < M)[:, None], rows[:, None] * N + cols[None, :]
        z = tl.load(x + place, inside, other=0.0).to(tl.float32)
        g = tl.load(grad_out + place, inside, other=0.0).to(tl.float32)
        found, act_grad = activated(z, TANH)
        g = g * act_grad
        tl.store(grad_out + place, g.to(grad_out.dtype.element_ty), inside)
        if RECOMPUTE:
            tl.store(again + place, found.to(again.dtype.element_ty), inside)
        sums += g
    tl.store(parts + tl.program_id(1) * N + cols, tl.sum(sums, 0))


@triton.jit
def sum_rows(x, parts, M, stride, N: constexpr, ROWS: constexpr, COLS: constexpr, EACH: constexpr, STAGES: constexpr):
    """Sums of x (M, N) over EACH rows, which begin `stride` numbers apart."""
    cols, begin = tl.program_id(0) * COLS + tl.arange(0, COLS), tl.program_id(1) * EACH
    x += begin.to(tl.int64) * stride
    sums = tl.zeros([ROWS, COLS], tl.float32)
    for first in tl.range(0, EACH, ROWS, num_stages=STAGES):
        rows = first + tl.arange(0, ROWS)
        sums += tl.load(x + rows[:, None] * stride + cols[None, :], (begin + rows < M)[:, None], other=0.0).to(tl.float32)
    tl.store(parts + tl.program_id(1) * N + cols, tl.sum(sums, 0))


@triton.jit
def norm_forward(x, scale, shift, normed, mean, rate, M, eps, N: constexpr, BLOCK: constexpr, ROWS: constexpr, STAGES: constexpr):
    """The norm of x (M, N), with means and rates (M,) of its rows. A program takes every so manieth row."""
    cols = tl.arange(0, BLOCK)
    valid = (cols < N)[None, :]
    factor, summand = tl.load(scale + cols, cols < N, other=0.0)[None, :], tl.load(shift + cols, cols < N, other=0.0)[None, :]
    for first in tl.range(tl.program_id(0) * ROWS, M, tl.num_programs(0) * ROWS, num_stages=STAGES):
        rows = first + tl.arange(0, ROWS)
        inside, place = (rows < M)[:, None] & valid, rows[:, None] * N + cols[None, :]
        z = tl.load(x + place, inside, other=0.0).to(tl.float32)
        middle = tl.sum(z, 1) / N
        z = tl.where(valid, z - middle[:, None], 0.0)
        r = tl.rsqrt(tl.sum(z * z, 1) / N + eps)
        tl.store(normed + place, (z * r[:, None] * factor + summand).to(normed.dtype.element_ty), inside)
        tl.store(mean + rows, middle, rows < M)
        tl.store(rate + rows, r, rows < M)


@triton.jit
def norm_backward(
    grad_residual, grad_out, x, mean, rate, scale, back, parts, M,
    N: constexpr, BLOCK: constexpr, ROWS: constexpr, BIASES: constexpr, STAGES: constexpr,
):  # fmt: skip
    """The gradient (M, N) of a norm's input: through the norm (change), and past it (onward). A program takes every so manieth row.

    Its parts (4 or 2, N): sums for scale and shift, and (BIASES) of what goes past the norm and of what was found.
    """
    cols = tl.arange(0, BLOCK)
    valid = (cols < N)[None, :]
    factor = tl.load(scale + cols, cols < N, other=0.0).to(tl.float32)[None, :]
    scales, shifts = tl.zeros([ROWS, BLOCK], tl.float32), tl.zeros([ROWS, BLOCK], tl.float32)
    if BIASES:
        behind, before = tl.zeros([ROWS, BLOCK], tl.float32), tl.zeros([ROWS, BLOCK], tl.float32)
    for first in tl.range(tl.program_id(0) * ROWS, M, tl.num_programs(0) * ROWS, num_stages=STAGES):
        rows = first + tl.arange(0, ROWS)
        inside, place = (rows < M)[:, None] & valid, rows[:, None] * N + cols[None, :]
        g = tl.load(grad_out + place, inside, other=0.0).to(tl.float32)
        z = tl.load(x + place, inside, other=0.0).to(tl.float32)
        past = tl.load(grad_residual + place, inside, other=0.0).to(tl.float32)
        r = tl.load(rate + rows, rows < M, other=0.0)[:, None]
        unit = tl.where(valid, (z - tl.load(mean + rows, rows < M, other=0.0)[:, None]) * r, 0.0)
        scales += g * unit
        shifts += g
        g *= factor
        d = (g - (tl.sum(g, 1) / N)[:, None] - unit * (tl.sum(g * unit, 1) / N)[:, None]) * r + past
        tl.store(back + place, d.to(back.dtype.element_ty), inside)
        if BIASES:
            behind += past
            before += tl.where(valid, d, 0.0)
    kinds: constexpr = 4 if BIASES else 2
    parts += tl.program_id(0) * (kinds * N)
    tl.store(parts + cols, tl.sum(scales, 0), cols < N)
    tl.store(parts + N + cols, tl.sum(shifts, 0), cols < N)
    if BIASES:
        tl.store(parts + 2 * N + cols, tl.sum(behind, 0), cols < N)
        tl.store(parts + 3 * N + cols, tl.sum(before, 0), cols < N)
