"""Triton kernels of a narrow Transformer block for training: a program owns some rows in their whole width, so that norms, biases,
activation, dropout and residuals happen beside the products, and the inner layer of the network is never read back forward.

Forward: `start` (norm, q k v), attention, `finish` (its output layer, residual, norm, the two-layer network, residual).
Backward: `finish_backward`, attention, `start_backward`, then `weights`: all four gradients of weights, and of biases, in one launch.
Sums over all rows are made of parts, one per program or stretch of rows, that `add_up` adds in one order: no run differs from another.
Dropout is the hash of `layers.dropout`, computed again backward. Shapes: M rows, D width, INNER that of the inner layer.
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language import constexpr


@triton.jit
def kept(place, seed, threshold):
    """`layers.dropout.kept`."""
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
    """x Φ(x) and its slope; erf to 1.5e-7 by a polynomial and the exponential that the slope needs too (Abramowitz & Stegun 7.1.26)."""
    size = tl.abs(x)
    t = 1.0 / (1.0 + 0.23164188 * size)
    bell = tl.exp2(x * x * -0.72134752)
    tail = t * (0.127414796 + t * (-0.142248368 + t * (0.7107068705 + t * (-0.7265760135 + t * 0.5307027145)))) * bell
    below = tl.where(x >= 0, 1.0 - tail, tail)
    return x * below, below + x * bell * 0.39894228


@triton.jit
def start(
    x, scale, shift, weight, bias, normed, out, M, eps, D: constexpr, N: constexpr, ROWS: constexpr, CHUNK: constexpr, STAGES: constexpr
):  # fmt: skip
    """x (M, D) -> its norm (M, D), and that times weightᵀ + bias (M, N)."""
    rows, cols = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, D)
    inside, place = (rows < M)[:, None], rows[:, None] * D + cols[None, :]
    xn, _rate = standardised(tl.load(x + place, inside, other=0.0).to(tl.float32), eps, D)
    xn = (xn * tl.load(scale + cols)[None, :] + tl.load(shift + cols)[None, :]).to(normed.dtype.element_ty)
    tl.store(normed + place, xn, inside)
    tl.debug_barrier()
    xn = tl.load(normed + place, inside, other=0.0)  # from memory into a factor; from registers it would stay in them
    for first in tl.range(0, N, CHUNK, num_stages=STAGES):
        n = first + tl.arange(0, CHUNK)
        w = tl.load(weight + n[:, None] * D + cols[None, :])
        y = tl.dot(xn, tl.trans(w), input_precision="ieee") + tl.load(bias + n)[None, :]
        tl.store(out + rows[:, None] * N + n[None, :], y.to(out.dtype.element_ty), inside)


@triton.jit
def add_residual(
    product, bias, x, seed, scale, shift, out, normed, begin, M, eps, threshold, keep,
    D: constexpr, ROWS: constexpr, PIECE: constexpr, DROP: constexpr, NORM: constexpr,
):  # fmt: skip
    """The stream x and what dropout leaves of a product with its bias, and the norm of that, PIECE rows at a time."""
    cols, seed = tl.arange(0, D), tl.load(seed)
    bias, scale, shift = tl.load(bias + cols)[None, :], tl.load(scale + cols)[None, :], tl.load(shift + cols)[None, :]
    for first in tl.range(begin, begin + ROWS, PIECE, num_stages=2):
        rows = first + tl.arange(0, PIECE)
        inside, place = (rows < M)[:, None], rows[:, None] * D + cols[None, :]
        z = tl.load(product + place, inside, other=0.0).to(tl.float32) + bias
        z = dropped(z, place, seed, threshold, keep, DROP) + tl.load(x + place, inside, other=0.0).to(tl.float32)
        tl.store(out + place, z.to(out.dtype.element_ty), inside)
        if NORM:
            xn, _rate = standardised(z.to(out.dtype.element_ty).to(tl.float32), eps, D)
            tl.store(normed + place, (xn * scale + shift).to(normed.dtype.element_ty), inside)


@triton.jit
def finish(
    mixed, x, seeds, wo, bo, scale, shift, w1, b1, w2, b2, middle, normed, hidden, slopes, out, M, eps, threshold, keep,
    D: constexpr, INNER: constexpr, ROWS: constexpr, CHUNK: constexpr, PIECE: constexpr, STAGES: constexpr, DROP: constexpr,
):  # fmt: skip
    """mixed and x (M, D) -> the stream after attention, its norm, and the block's output (M, D); GELU's output and its slope (M, INNER)."""
    begin, cols, part = tl.program_id(0) * ROWS, tl.arange(0, D), tl.arange(0, CHUNK)
    rows = begin + tl.arange(0, ROWS)
    inside, place = (rows < M)[:, None], rows[:, None] * D + cols[None, :]
    kind = out.dtype.element_ty
    z = tl.zeros([ROWS, D], tl.float32)
    for first in tl.range(0, D, CHUNK, num_stages=STAGES):
        k = first + part
        a = tl.load(mixed + rows[:, None] * D + k[None, :], inside, other=0.0)
        z = tl.dot(a, tl.trans(tl.load(wo + cols[:, None] * D + k[None, :])), z, input_precision="ieee")
    tl.store(middle + place, z.to(kind), inside)
    tl.debug_barrier()
    add_residual(middle, bo, x, seeds, scale, shift, middle, normed, begin, M, eps, threshold, keep, D, ROWS, PIECE, DROP, True)
    tl.debug_barrier()
    xn = tl.load(normed + place, inside, other=0.0)
    y = tl.zeros([ROWS, D], tl.float32)
    for first in tl.range(0, INNER, CHUNK, num_stages=STAGES):
        n = first + part
        u = tl.dot(xn, tl.trans(tl.load(w1 + n[:, None] * D + cols[None, :])), input_precision="ieee") + tl.load(b1 + n)[None, :]
        h, slope = gelu(u)
        h = h.to(kind)
        tl.store(hidden + rows[:, None] * INNER + n[None, :], h, inside)
        tl.store(slopes + rows[:, None] * INNER + n[None, :], slope.to(kind), inside)
        y = tl.dot(h, tl.trans(tl.load(w2 + cols[:, None] * INNER + n[None, :])), y, input_precision="ieee")
    tl.store(out + place, y.to(kind), inside)
    tl.debug_barrier()
    add_residual(out, b2, middle, seeds + 1, scale, shift, out, normed, begin, M, eps, threshold, keep, D, ROWS, PIECE, DROP, False)


@triton.jit
def norm_backward(
    gradient, x, residual, scale, dx, dproduct, seed, parts, begin, M, eps, threshold, keep,
    D: constexpr, ROWS: constexpr, PIECE: constexpr, DROP: constexpr, AGAIN: constexpr,
):  # fmt: skip
    """The gradient of a norm's input with the residual's added, PIECE rows at a time, as all would not fit into registers.

    AGAIN: also what dropout leaves of it, for the product before. Parts (2, D) of the gradients of scale and shift.
    """
    cols = tl.arange(0, D)
    scale, seed = tl.load(scale + cols)[None, :], tl.load(seed)
    scales, shifts = tl.zeros([PIECE, D], tl.float32), tl.zeros([PIECE, D], tl.float32)
    for first in tl.range(begin, begin + ROWS, PIECE, num_stages=2):
        rows = first + tl.arange(0, PIECE)
        inside, place = (rows < M)[:, None], rows[:, None] * D + cols[None, :]
        g = tl.load(gradient + place, inside, other=0.0).to(tl.float32)
        xn, rate = standardised(tl.load(x + place, inside, other=0.0).to(tl.float32), eps, D)
        scales += g * xn
        shifts += g
        g = g * scale
        d = (g - (tl.sum(g, 1) / D)[:, None] - xn * (tl.sum(g * xn, 1) / D)[:, None]) * rate[:, None]
        d = (d + tl.load(residual + place, inside, other=0.0).to(tl.float32)).to(dx.dtype.element_ty)
        tl.store(dx + place, d, inside)
        if AGAIN:
            tl.store(dproduct + place, dropped(d.to(tl.float32), place, seed, threshold, keep, DROP).to(d.dtype), inside)
    tl.store(parts + cols, tl.sum(scales, 0))
    tl.store(parts + D + cols, tl.sum(shifts, 0))


@triton.jit
def finish_backward(
    dout, middle, slopes, seeds, wo, scale, w1, w2, dfall, drise, dmiddle, dproduct, dmixed, parts, M, eps, threshold, keep,
    D: constexpr, INNER: constexpr, ROWS: constexpr, CHUNK: constexpr, PIECE: constexpr, STAGES: constexpr, DROP: constexpr,
):  # fmt: skip
    """Gradients of each product's output (dfall, drise, dproduct) and of the stream (dmiddle) and mixed."""
    rows, cols, part = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, D), tl.arange(0, CHUNK)
    inside, place = (rows < M)[:, None], rows[:, None] * D + cols[None, :]
    kind = dmixed.dtype.element_ty
    g = dropped(tl.load(dout + place, inside, other=0.0).to(tl.float32), place, tl.load(seeds + 1), threshold, keep, DROP).to(kind)
    tl.store(dfall + place, g, inside)
    tl.debug_barrier()
    g = tl.load(dfall + place, inside, other=0.0)
    dxn = tl.zeros([ROWS, D], tl.float32)
    for first in tl.range(0, INNER, CHUNK, num_stages=STAGES):
        n = first + part
        spot = rows[:, None] * INNER + n[None, :]
        dh = tl.dot(g, tl.load(w2 + cols[:, None] * INNER + n[None, :]), input_precision="ieee")
        du = (dh * tl.load(slopes + spot, inside, other=0.0).to(tl.float32)).to(kind)
        tl.store(drise + spot, du, inside)
        dxn = tl.dot(du, tl.load(w1 + n[:, None] * D + cols[None, :]), dxn, input_precision="ieee")
    tl.store(dmixed + place, dxn.to(kind), inside)
    tl.debug_barrier()
    parts += tl.program_id(0) * 4 * D + 2 * D
    begin = tl.program_id(0) * ROWS
    norm_backward(dmixed, middle, dout, scale, dmiddle, dproduct, seeds, parts, begin, M, eps, threshold, keep, D, ROWS, PIECE, DROP, True)
    tl.debug_barrier()
    d = tl.load(dproduct + place, inside, other=0.0)
    for first in tl.range(0, D, CHUNK, num_stages=STAGES):
        n = first + part
        y = tl.dot(d, tl.load(wo + cols[:, None] * D + n[None, :]), input_precision="ieee")
        tl.store(dmixed + rows[:, None] * D + n[None, :], y.to(kind), inside)


@triton.jit
def start_backward(
    dproduct, x, dmiddle, scale, weight, scratch, dx, parts, M, eps,
    D: constexpr, N: constexpr, ROWS: constexpr, CHUNK: constexpr, PIECE: constexpr, STAGES: constexpr,
):  # fmt: skip
    """The gradient of q k v (M, N) and of the stream behind attention (M, D) -> that of the block's input (M, D)."""
    rows, cols = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, D)
    inside, place = (rows < M)[:, None], rows[:, None] * D + cols[None, :]
    dxn = tl.zeros([ROWS, D], tl.float32)
    for first in tl.range(0, N, CHUNK, num_stages=STAGES):
        k = first + tl.arange(0, CHUNK)
        a = tl.load(dproduct + rows[:, None] * N + k[None, :], inside, other=0.0)
        dxn = tl.dot(a, tl.load(weight + k[:, None] * D + cols[None, :]), dxn, input_precision="ieee")
    tl.store(scratch + place, dxn.to(scratch.dtype.element_ty), inside)
    tl.debug_barrier()
    parts += tl.program_id(0) * 4 * D
    begin = tl.program_id(0) * ROWS
    norm_backward(scratch, x, dmiddle, scale, dx, dx, parts, parts, begin, M, eps, 0, 1.0, D, ROWS, PIECE, False, False)


@triton.jit
def weights(
    dqkv, xqkv, dout, xout, drise, xrise, dfall, xfall, parts, M, share,
    D: constexpr, INNER: constexpr, HIGH: constexpr, WIDE: constexpr, ROWS: constexpr, STAGES: constexpr,
):  # fmt: skip
    """Gradients of the weights (outputs, inputs) of the block's products, then of their biases, over one stretch of rows each."""
    tile, split = tl.program_id(0), tl.program_id(1)
    g, x, n, m, at, bias = dqkv, xqkv, 3 * D, D, 0, 4 * D * D + 2 * D * INNER
    ends: constexpr = WIDE * HIGH
    if tile >= (4 * D * D + D * INNER) // ends:
        tile -= (4 * D * D + D * INNER) // ends
        g, x, n, m, at, bias = dfall, xfall, D, INNER, at + 4 * D * D + D * INNER, bias + 4 * D + INNER
    elif tile >= 4 * D * D // ends:
        tile -= 4 * D * D // ends
        g, x, n, m, at, bias = drise, xrise, INNER, D, at + 4 * D * D, bias + 4 * D
    elif tile >= 3 * D * D // ends:
        tile -= 3 * D * D // ends
        g, x, n, m, at, bias = dout, xout, D, D, at + 3 * D * D, bias + 3 * D
    n, m = tl.multiple_of(n, 16), tl.multiple_of(m, 16)
    wide = m // WIDE
    i, j = tile // wide * HIGH + tl.arange(0, HIGH), tile % wide * WIDE + tl.arange(0, WIDE)
    sums, biases = tl.zeros([HIGH, WIDE], tl.float32), tl.zeros([ROWS, HIGH], tl.float32)
    end = tl.minimum((split + 1) * share, M)
    counted = tl.where(tile % wide == 0, end, 0)
    for first in tl.range(split * share, end, ROWS, num_stages=STAGES):
        r = first + tl.arange(0, ROWS)
        a = tl.load(g + r[:, None] * n + i[None, :], (r < end)[:, None], other=0.0)
        b = tl.load(x + r[:, None] * m + j[None, :], (r < end)[:, None], other=0.0)
        sums = tl.dot(tl.trans(a), b, sums, input_precision="ieee")
        # read once more, said differently: a tile that has another reader is overwritten while the product still reads it (Triton 3.6)
        a = tl.load(g + r[:, None] * n + i[None, :], (r < counted)[:, None], other=0.0, eviction_policy="evict_first")
        biases += a.to(tl.float32)
    parts += split * (4 * D * D + 2 * D * INNER + 5 * D + INNER)
    tl.store(parts + at + i[:, None] * m + j[None, :], sums)
    if tile % wide == 0:
        tl.store(parts + bias + i, tl.sum(biases, 0))


@triton.jit
def add_up(parts, out, count, size, COUNT: constexpr, BLOCK: constexpr):
    """parts (count, size) -> their sum (size)."""
    i, part = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, COUNT)
    there = (part < count)[:, None] & (i < size)[None, :]
    tl.store(out + i, tl.sum(tl.load(parts + part[:, None] * size + i[None, :], there, other=0.0), 0), i < size)
