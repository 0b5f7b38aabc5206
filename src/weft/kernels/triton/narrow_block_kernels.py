"""Triton kernels of a narrow Transformer block for training: products whose programs also do what stands beside them.

Forward: `normalise` (before the first block), `product` (q k v), attention, `add_residual` (its output layer, the stream, its norm),
`product` (the inner layer with GELU and its slope), `add_residual` (and the next block's norm). Backward: `drop` (behind the last
block), `product` (times the slope), `norm_backward`, attention, `norm_backward` (and what `drop` does for the block before), then
`weights`: all four gradients of weights, and of biases, in one launch.
`add_residual` needs whole rows of a product: it makes them itself, or (CHUNK 0) is given them.
Sums over all rows are made of parts, one per program or stretch of rows, that `add_up` adds in one order: no run differs from another.
Dropout is the hash of `nn.dropout`, computed again backward. Shapes: M rows, D width, INNER that of the inner layer.
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language import constexpr


@triton.jit
def kept(place, seed, threshold):
    """`nn.dropout.kept`."""
    x = (place ^ seed) * -1640531535
    x = (x ^ ((x >> 16) & 0xFFFF)) * -2048144789
    x = (x ^ ((x >> 13) & 0x7FFFF)) * -1028477387
    return (x >> 8) < threshold


@triton.jit
def dropped(x, place, seed, threshold, keep, DROP: constexpr):
    if DROP:
        x = tl.where(kept(place, seed, threshold), x * keep, 0.0)
    return x


@triton.jit
def standardised(x, eps, D: constexpr):
    """Rows with mean zero and variance one, and what they were multiplied by."""
    x = x - (tl.sum(x, 1) / D)[:, None]
    rate = tl.rsqrt(tl.sum(x * x, 1) / D + eps)
    return x * rate[:, None], rate


@triton.jit
def gelu(x):
    """x Φ(x) and its slope. Below zero, Φ is the bell, which the slope needs too, times a polynomial: to 2.2e-4 of itself, however small.

    So the first, rounded to bf16, is the exact one within a unit of the last place; the slope is right to 1.1e-4.
    """
    t = tl.rsqrt(1.0 + 0.498 * tl.abs(x))
    t = t * t  # cheaper than a division
    bell = tl.exp2(x * x * -0.72134752)
    tail = t * (0.200178268 + t * (0.177630239 + t * (0.247639844 - t * 0.125557976))) * bell
    below = tl.where(x >= 0, 1.0 - tail, tail)
    return x * below, below + x * bell * 0.39894228


@triton.jit
def normalise(x, scale, shift, normed, M, eps, D: constexpr, ROWS: constexpr):
    """x (M, D) -> its norm (M, D)."""
    rows, cols = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, D)
    inside, place = (rows < M)[:, None], rows[:, None] * D + cols[None, :]
    xn, _rate = standardised(tl.load(x + place, inside, other=0.0).to(tl.float32), eps, D)
    xn = xn * tl.load(scale + cols)[None, :] + tl.load(shift + cols)[None, :]
    tl.store(normed + place, xn.to(normed.dtype.element_ty), inside)


@triton.jit
def drop(x, seed, out, size, threshold, keep, BLOCK: constexpr):
    """What dropout leaves of x."""
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    z = dropped(tl.load(x + place, place < size, other=0.0).to(tl.float32), place, tl.load(seed), threshold, keep, True)
    tl.store(out + place, z.to(out.dtype.element_ty), place < size)


@triton.jit
def product(
    a, weight, bias, slopes, out, M, step, K: constexpr, N: constexpr, ROWS: constexpr, COLS: constexpr, GELU: constexpr
):  # fmt: skip
    """a (M, K) -> (M, N): times weightᵀ + bias, (forward) then GELU and its slope; or (backward) times weight and that slope.

    A program holds its columns of the weight and takes tiles of rows `step` apart, the next one read while this one is worked on.
    """
    cols, k = tl.program_id(0) % (N // COLS) * COLS + tl.arange(0, COLS), tl.arange(0, K)
    if GELU == "backward":
        right = tl.load(weight + k[:, None] * N + cols[None, :])
    else:
        right = tl.trans(tl.load(weight + cols[:, None] * K + k[None, :]))
    begin = tl.program_id(0) // (N // COLS) * ROWS
    ahead = begin + tl.arange(0, ROWS)
    left = tl.load(a + ahead[:, None] * K + k[None, :], (ahead < M)[:, None], other=0.0)
    for first in tl.range(begin, M, step):
        rows = first + tl.arange(0, ROWS)
        inside, place = (rows < M)[:, None], rows[:, None] * N + cols[None, :]
        if GELU == "backward":
            act_grad = tl.load(slopes + place, inside, other=0.0)
        ahead = rows + step
        following = tl.load(a + ahead[:, None] * K + k[None, :], (ahead < M)[:, None], other=0.0)
        z = tl.dot(left, right, input_precision="ieee")
        z = z * act_grad.to(tl.float32) if GELU == "backward" else z + tl.load(bias + cols)[None, :]
        if GELU == "forward":
            z, act_grad = gelu(z)
            tl.store(slopes + place, act_grad.to(slopes.dtype.element_ty), inside)
        tl.store(out + place, z.to(out.dtype.element_ty), inside)
        left = following


@triton.jit
def add_residual(
    a, weight, bias, x, seed, scale, shift, out, normed, M, eps, threshold, keep,
    D: constexpr, K: constexpr, ROWS: constexpr, CHUNK: constexpr, STAGES: constexpr, DROP: constexpr, NORM: constexpr,
):  # fmt: skip
    """The stream x and what dropout leaves of a (M, K) times weightᵀ + bias, and (NORM) the norm of that, all (M, D)."""
    rows, cols = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, D)
    inside, place = (rows < M)[:, None], rows[:, None] * D + cols[None, :]
    residual = tl.load(x + place, inside, other=0.0)
    if CHUNK:
        z = tl.zeros([ROWS, D], tl.float32)
        for first in tl.range(0, K, CHUNK, num_stages=STAGES):
            k = first + tl.arange(0, CHUNK)
            left = tl.load(a + rows[:, None] * K + k[None, :], inside, other=0.0)
            z = tl.dot(left, tl.trans(tl.load(weight + cols[:, None] * K + k[None, :])), z, input_precision="ieee")
    else:
        z = tl.load(a + place, inside, other=0.0).to(tl.float32)
    z = dropped(z + tl.load(bias + cols)[None, :], place, tl.load(seed), threshold, keep, DROP) + residual.to(tl.float32)
    tl.store(out + place, z.to(out.dtype.element_ty), inside)
    if NORM:
        xn, _rate = standardised(z.to(out.dtype.element_ty).to(tl.float32), eps, D)
        xn = xn * tl.load(scale + cols)[None, :] + tl.load(shift + cols)[None, :]
        tl.store(normed + place, xn.to(normed.dtype.element_ty), inside)


@triton.jit
def norm_backward(
    gradient, x, residual, scale, dx, dproduct, seed, parts, apart, M, eps, threshold, keep,
    D: constexpr, ROWS: constexpr, PIECE: constexpr, STAGES: constexpr, DROP: constexpr, AGAIN: constexpr,
):  # fmt: skip
    """The gradient of a norm's input with the residual's added; (AGAIN) what dropout leaves of it, for the product before.

    Parts (2, D) of the gradients of scale and shift, so far apart.
    """
    begin, cols = tl.program_id(0) * ROWS, tl.arange(0, D)
    factor, seed = tl.load(scale + cols)[None, :], tl.load(seed)
    scales, shifts = tl.zeros([PIECE, D], tl.float32), tl.zeros([PIECE, D], tl.float32)
    for first in tl.range(begin, begin + ROWS, PIECE, num_stages=STAGES):
        rows = first + tl.arange(0, PIECE)
        inside, place = (rows < M)[:, None], rows[:, None] * D + cols[None, :]
        g = tl.load(gradient + place, inside, other=0.0).to(tl.float32)
        xn, rate = standardised(tl.load(x + place, inside, other=0.0).to(tl.float32), eps, D)
        scales += g * xn
        shifts += g
        g = g * factor
        d = (g - (tl.sum(g, 1) / D)[:, None] - xn * (tl.sum(g * xn, 1) / D)[:, None]) * rate[:, None]
        d = (d + tl.load(residual + place, inside, other=0.0).to(tl.float32)).to(dx.dtype.element_ty)
        tl.store(dx + place, d, inside)
        if AGAIN:
            tl.store(dproduct + place, dropped(d.to(tl.float32), place, seed, threshold, keep, DROP).to(d.dtype), inside)
    parts += tl.program_id(0) * apart
    tl.store(parts + cols, tl.sum(scales, 0))
    tl.store(parts + D + cols, tl.sum(shifts, 0))


@triton.jit
def weights(
    dqkv, xqkv, dout, xout, dup, x_up, ddown, x_down, parts, M,
    D: constexpr, INNER: constexpr, SHARE: constexpr, HIGH: constexpr, WIDE: constexpr, ROWS: constexpr, STAGES: constexpr,
):  # fmt: skip
    """Gradients of the weights (outputs, inputs) of the block's products, then of their biases, over one stretch of rows each."""
    tile, split = tl.program_id(0), tl.program_id(1)
    g, x, n, m, at, bias = dqkv, xqkv, 3 * D, D, 0, 4 * D * D + 2 * D * INNER
    ends: constexpr = WIDE * HIGH
    if tile >= (4 * D * D + D * INNER) // ends:
        tile -= (4 * D * D + D * INNER) // ends
        g, x, n, m, at, bias = ddown, x_down, D, INNER, at + 4 * D * D + D * INNER, bias + 4 * D + INNER
    elif tile >= 4 * D * D // ends:
        tile -= 4 * D * D // ends
        g, x, n, m, at, bias = dup, x_up, INNER, D, at + 4 * D * D, bias + 4 * D
    elif tile >= 3 * D * D // ends:
        tile -= 3 * D * D // ends
        g, x, n, m, at, bias = dout, xout, D, D, at + 3 * D * D, bias + 3 * D
    n, m = tl.multiple_of(n, 16), tl.multiple_of(m, 16)
    wide = m // WIDE
    i, j = tile // wide * HIGH + tl.arange(0, HIGH), tile % wide * WIDE + tl.arange(0, WIDE)
    sums, biases = tl.zeros([HIGH, WIDE], tl.float32), tl.zeros([HIGH, 16], tl.float32)
    ones = tl.full([ROWS, 16], 1.0, g.dtype.element_ty)
    end = tl.minimum((split + 1) * SHARE, M)
    for first in tl.range(0, SHARE, ROWS, num_stages=STAGES):  # of known length: else each product waits for the one before
        r = split * SHARE + first + tl.arange(0, ROWS)
        a = tl.load(g + r[:, None] * n + i[None, :], (r < end)[:, None], other=0.0)
        b = tl.load(x + r[:, None] * m + j[None, :], (r < end)[:, None], other=0.0)
        sums = tl.dot(tl.trans(a), b, sums, input_precision="ieee")
        biases = tl.dot(tl.trans(a), ones, biases, input_precision="ieee")  # as a product: it may read the same tile
    parts += split * (4 * D * D + 2 * D * INNER + 5 * D + INNER)
    tl.store(parts + at + i[:, None] * m + j[None, :], sums)
    if tile % wide == 0:
        tl.store(parts + bias + i, tl.sum(biases, 1) / 16)


@triton.jit
def add_up(parts, out, count, size, COUNT: constexpr, BLOCK: constexpr):
    """parts (count, size) -> their sum (size)."""
    i, part = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, COUNT)
    there = (part < count)[:, None] & (i < size)[None, :]
    tl.store(out + i, tl.sum(tl.load(parts + part[:, None] * size + i[None, :], there, other=0.0), 0), i < size)
