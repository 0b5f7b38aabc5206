"""Causal attention for sequences of at most 128 tokens as one Triton kernel per direction.

At this length a head's scores never leave the chip: rows are taken in blocks, and a block looks only at the columns it may
see. The packed projection is read as it is, and its gradient written packed. Dropout is a hash of (seed, head, row, column),
computed again in the backward pass. Shapes: B batch, T time, H heads, K head width; qkv is (B, T, 3, H, K).
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

REGISTERS = 168
"""Of a thread backward, where heads are narrow: three programs fit on a processor instead of two."""


@triton.jit
def _kept(seed, program, rows, columns, threshold):
    """Which attention weights dropout keeps: a well-mixed hash per row and one per column, one multiplication and addition per element.

    Of all rows, any two columns keep or drop independently; so do any two rows of all columns.
    """
    r = (program * 128 + rows).to(tl.uint32) * 0x9E3779B1 + seed.to(tl.uint32)
    r = (r ^ (r >> 16)) * 0x85EBCA6B
    r = (r ^ (r >> 13)) * 0xC2B2AE35
    c = (columns.to(tl.uint32) + 1) * 0x27D4EB2F
    c = (c ^ (c >> 15)) * 0x2545F491
    c = c ^ (c >> 13)
    odd = (r * 0x846CA68B) | 1
    x = odd[:, None] * c[None, :] + (r ^ (r >> 16))[:, None]
    return x >= threshold


@triton.jit
def _scores(q, k, rows, columns, length, scale):
    """Causal scores in units of log2, -inf where a row must not look."""
    seen = (columns[None, :] <= rows[:, None]) & (columns[None, :] < length)
    return tl.where(seen, tl.dot(q, tl.trans(k)) * scale, float("-inf"))


@triton.jit
def _forward(qkv, seed, out, sums, T, H, scale, threshold, keep, K: tl.constexpr, ROWS: tl.constexpr, DROP: tl.constexpr):
    program, block = tl.program_id(0), tl.program_id(1)
    width = H * K
    rows, head = block * ROWS + tl.arange(0, ROWS), tl.arange(0, K)
    base = qkv + (program // H) * T * 3 * width + (program % H) * K
    inside = (rows < T)[:, None]
    q = tl.load(base + rows[:, None] * 3 * width + head[None, :], mask=inside, other=0.0)
    total = tl.zeros([ROWS], tl.float32)
    top = tl.full([ROWS], float("-inf"), tl.float32)
    mixed = tl.zeros([ROWS, K], tl.float32)
    for start in range(0, block + 1):
        columns = start * ROWS + tl.arange(0, ROWS)
        place = base + width + columns[:, None] * 3 * width + head[None, :]
        k = tl.load(place, mask=(columns < T)[:, None], other=0.0)
        v = tl.load(place + width, mask=(columns < T)[:, None], other=0.0)
        scores = _scores(q, k, rows, columns, T, scale)
        higher = tl.maximum(top, tl.max(scores, 1))
        shrink = tl.exp2(top - higher)
        weights = tl.exp2(scores - higher[:, None])
        total = total * shrink + tl.sum(weights, 1)
        if DROP:
            weights = tl.where(_kept(tl.load(seed), program, rows, columns, threshold), weights, 0.0)
        mixed = mixed * shrink[:, None] + tl.dot(weights.to(v.dtype), v)
        top = higher
    place = out + (program // H) * T * width + (program % H) * K + rows[:, None] * width + head[None, :]
    tl.store(place, (mixed * (keep / total)[:, None]).to(out.dtype.element_ty), mask=inside)
    tl.store(sums + program * 128 + rows, top + tl.log2(total), mask=rows < T)


@triton.jit
def _pair(q, k, v, do, delta, height, rows, columns, seed, program, T, scale, threshold, keep, DROP: tl.constexpr):
    """For one block of rows and one of columns: the dropped weights, and the gradient of the scores."""
    weights = tl.exp2(_scores(q, k, rows, columns, T, scale) - height[:, None])
    dweights = tl.dot(do, tl.trans(v))
    dropped = weights
    if DROP:
        kept = _kept(tl.load(seed), program, rows, columns, threshold)
        dropped = tl.where(kept, weights * keep, 0.0)
        dweights = tl.where(kept, dweights * keep, 0.0)
    return dropped.to(v.dtype), (weights * (dweights - delta[:, None])).to(v.dtype)


@triton.jit
def _read(qkv, out, dout, sums, base, plain, rows, width, T, K: tl.constexpr):
    """A block's q, k, v, incoming gradient, and the two numbers per row its softmax needs."""
    head = tl.arange(0, K)[None, :]
    inside = (rows < T)[:, None]
    packed = qkv + base + rows[:, None] * 3 * width + head
    q = tl.load(packed, mask=inside, other=0.0)
    k = tl.load(packed + width, mask=inside, other=0.0)
    v = tl.load(packed + 2 * width, mask=inside, other=0.0)
    place = plain + rows[:, None] * width + head
    do = tl.load(dout + place, mask=inside, other=0.0)
    delta = tl.sum(do.to(tl.float32) * tl.load(out + place, mask=inside, other=0.0).to(tl.float32), 1)
    return q, k, v, do, delta, tl.load(sums + rows, mask=rows < T, other=0.0)


@triton.jit
def _write(dqkv, base, rows, width, T, dq, dk, dv, factor, K: tl.constexpr):
    place = dqkv + base + rows[:, None] * 3 * width + tl.arange(0, K)[None, :]
    inside = (rows < T)[:, None]
    kind = dqkv.dtype.element_ty
    tl.store(place, (dq * factor).to(kind), mask=inside)
    tl.store(place + width, (dk * factor).to(kind), mask=inside)
    tl.store(place + 2 * width, dv.to(kind), mask=inside)


@triton.jit
def _backward(
    qkv,
    seed,
    out,
    sums,
    dout,
    dqkv,
    T,
    H,
    scale,
    factor,
    threshold,
    keep,
    K: tl.constexpr,
    ROWS: tl.constexpr,
    TWO: tl.constexpr,
    DROP: tl.constexpr,
):
    """One program per head: the first half with itself, then (TWO) the second half with the first and with itself."""
    program = tl.program_id(0)
    width = H * K
    base = (program // H) * T * 3 * width + (program % H) * K
    plain = (program // H) * T * width + (program % H) * K
    sums += program * 128
    early = tl.arange(0, ROWS)
    q0, k0, v0, do0, delta0, height0 = _read(qkv, out, dout, sums, base, plain, early, width, T, K)
    weights, scores = _pair(q0, k0, v0, do0, delta0, height0, early, early, seed, program, T, scale, threshold, keep, DROP)
    dq0 = tl.dot(scores, k0)
    dk0 = tl.dot(tl.trans(scores), q0)
    dv0 = tl.dot(tl.trans(weights), do0)
    if TWO:
        late = ROWS + tl.arange(0, ROWS)
        q1, k1, v1, do1, delta1, height1 = _read(qkv, out, dout, sums, base, plain, late, width, T, K)
        weights, scores = _pair(q1, k0, v0, do1, delta1, height1, late, early, seed, program, T, scale, threshold, keep, DROP)
        dq1 = tl.dot(scores, k0)
        dk0 += tl.dot(tl.trans(scores), q1)
        dv0 += tl.dot(tl.trans(weights), do1)
        weights, scores = _pair(q1, k1, v1, do1, delta1, height1, late, late, seed, program, T, scale, threshold, keep, DROP)
        dq1 += tl.dot(scores, k1)
        _write(dqkv, base, late, width, T, dq1, tl.dot(tl.trans(scores), q1), tl.dot(tl.trans(weights), do1), factor, K)
    _write(dqkv, base, early, width, T, dq0, dk0, dv0, factor, K)


def _numbers(qkv: Tensor, dropout: float) -> tuple[float, int, float]:
    """Scale of the scores in units of log2, threshold of the hash, and the factor of what is kept."""
    return qkv.size(4) ** -0.5 * 1.4426950408889634, int(dropout * 2**32), 1.0 / (1.0 - dropout)


@torch.library.custom_op("weft::short_attention", mutates_args=())
def short_attention(qkv: Tensor, seed: Tensor, dropout: float) -> tuple[Tensor, Tensor]:
    """qkv (B, T, 3, H, K) contiguous, seed (1,) -> (B, T, H * K), and log2 of each row's sum (B * H, 128)."""
    b, t, _, h, k = qkv.shape
    out, sums = qkv.new_empty(b, t, h * k), qkv.new_empty(b * h, 128, dtype=torch.float32)
    grid = (b * h, triton.cdiv(t, 32))
    _forward[grid](qkv, seed, out, sums, t, h, *_numbers(qkv, dropout), K=k, ROWS=32, DROP=dropout > 0.0, num_warps=1 if k <= 32 else 2)
    return out, sums


@short_attention.register_fake
def _(qkv: Tensor, seed: Tensor, dropout: float) -> tuple[Tensor, Tensor]:
    b, t, _, h, k = qkv.shape
    return qkv.new_empty(b, t, h * k), qkv.new_empty(b * h, 128, dtype=torch.float32)


@torch.library.custom_op("weft::short_attention_backward", mutates_args=())
def short_attention_backward(dout: Tensor, out: Tensor, sums: Tensor, qkv: Tensor, seed: Tensor, dropout: float) -> Tensor:
    b, t, _, h, k = qkv.shape
    dqkv = torch.empty_like(qkv)
    scale, *numbers = _numbers(qkv, dropout)
    settings = {"K": k, "ROWS": 64, "TWO": t > 64, "DROP": dropout > 0.0, "num_warps": 4}
    if k <= 32:
        settings["maxnreg"] = REGISTERS
    _backward[(b * h,)](qkv, seed, out, sums, dout.contiguous(), dqkv, t, h, scale, k**-0.5, *numbers, **settings)
    return dqkv


@short_attention_backward.register_fake
def _(dout: Tensor, out: Tensor, sums: Tensor, qkv: Tensor, seed: Tensor, dropout: float) -> Tensor:
    return torch.empty_like(qkv)


def _save(ctx, inputs, output) -> None:
    qkv, seed, ctx.dropout = inputs
    ctx.save_for_backward(*output, qkv, seed)
    ctx.set_materialize_grads(False)


def _differentiate(ctx, gradient, _):
    out, sums, qkv, seed = ctx.saved_tensors
    return torch.ops.weft.short_attention_backward(gradient, out, sums, qkv, seed, ctx.dropout), None, None


short_attention.register_autograd(_differentiate, setup_context=_save)
