"""Triton kernels that read one more token of every row of a decoder: what a step costs is the time to fetch the weights.

The sums for a row are made in one order however many rows there are, so that a text does not depend on those beside it. Where the GPU
lets a kernel begin before the one before it has ended (Hopper's programmatic dependent launch), it is set up meanwhile, and then waits.

Shapes: R rows, D width, N outputs and M inputs of a product, H heads, G groups of them, K head width, S positions of the cache.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from weft.kernels.cuda import decode_rows

SPLIT = 256
"""Positions of the cache that one program looks at."""
PRODUCT = {"BLOCK_N": 32, "BLOCK_M": 128, "AHEAD": 128, "num_stages": 4, "num_warps": 4}
ATTENTION = {"BLOCK_S": 32, "num_warps": 2}
"""Sizes of tiles; AHEAD are the inputs whose weights are fetched before the kernel before has ended."""


@cache
def early() -> bool:
    """Whether kernels may begin before those before them have ended."""
    return torch.cuda.is_available() and torch.cuda.get_device_capability() >= (9, 0)


def launch() -> dict[str, bool]:
    return {"EARLY": True, "launch_pdl": True} if early() else {"EARLY": False}


@triton.jit
def grid_dependency_wait(EARLY: tl.constexpr):  # type: ignore[no-untyped-def]
    """Wait for the kernel before this one, and let the next begin."""
    if EARLY:
        tl.extra.cuda.gdc_wait()
        tl.extra.cuda.gdc_launch_dependents()


@triton.jit
def activated(x, KIND: tl.constexpr):  # type: ignore[no-untyped-def]
    if KIND == "gelu":
        x = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    elif KIND == "gelu_tanh":
        inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
        x = x * tl.sigmoid(2.0 * inner)  # 0.5 (1 + tanh u) is sigmoid(2 u)
    elif KIND == "relu":
        x = tl.maximum(x, 0.0)
    elif KIND == "squared_relu":
        x = tl.maximum(x, 0.0) * tl.maximum(x, 0.0)
    elif KIND == "silu":
        x = x * tl.sigmoid(x)
    return x


@triton.jit
def many_rows(  # type: ignore[no-untyped-def]
    x, weight, bias, out, R, N, M, SHARE,
    KIND: tl.constexpr, GATED: tl.constexpr, PARTIAL: tl.constexpr, ROWS: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_M: tl.constexpr,
    AHEAD: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """x (R, M) -> activation(x weightᵀ + bias) (R, N); where partial, the sums over SHARE inputs each, (parts, R, N) in float32."""
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    r = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    first = tl.program_id(2) * SHARE
    end = tl.minimum(first + SHARE, M)
    rows = n.to(tl.int64)[None, :] * M
    ahead = first + tl.arange(0, AHEAD)
    known = (n < N)[None, :] & (ahead < end)[:, None]
    part = tl.load(weight + rows + ahead[:, None], known, other=0.0)
    if GATED:
        second = tl.load(weight + rows + ahead[:, None] + N.to(tl.int64) * M, known, other=0.0)
    if bias is not None:
        shift = tl.load(bias + n, n < N, other=0.0).to(tl.float32)
    grid_dependency_wait(EARLY)  # by now these weights are on their way
    given = tl.load(x + r[:, None] * M + ahead[None, :], (r < R)[:, None] & (ahead < end)[None, :], other=0.0)
    sums = tl.zeros([ROWS, BLOCK_N], tl.float32)
    gates = tl.zeros([ROWS, BLOCK_N], tl.float32)
    if GATED:
        gates = tl.dot(given, part, gates, input_precision="ieee")
        sums = tl.dot(given, second, sums, input_precision="ieee")
    else:
        sums = tl.dot(given, part, sums, input_precision="ieee")
    for begin in range(first + AHEAD, end, BLOCK_M):
        k = begin + tl.arange(0, BLOCK_M)
        there = (n < N)[None, :] & (k < end)[:, None]
        value = tl.load(x + r[:, None] * M + k[None, :], (r < R)[:, None] & (k < end)[None, :], other=0.0)
        place = weight + rows + k[:, None]
        if GATED:
            gates = tl.dot(value, tl.load(place, there, other=0.0), gates, input_precision="ieee")
            sums = tl.dot(value, tl.load(place + N.to(tl.int64) * M, there, other=0.0), sums, input_precision="ieee")
        else:
            sums = tl.dot(value, tl.load(place, there, other=0.0), sums, input_precision="ieee")
    target = r[:, None].to(tl.int64) * N + n[None, :]
    inside = (r < R)[:, None] & (n < N)[None, :]
    if PARTIAL:
        tl.store(out + tl.program_id(2).to(tl.int64) * R * N + target, sums, inside)
    else:
        if bias is not None:
            sums += shift[None, :]
        y = sums.to(x.dtype.element_ty).to(tl.float32)
        if GATED:
            y = activated(gates.to(x.dtype.element_ty).to(tl.float32), KIND).to(x.dtype.element_ty).to(tl.float32) * y
        else:
            y = activated(y, KIND)
        tl.store(out + target, y, inside)


@triton.jit
def add_and_norm_kernel(  # type: ignore[no-untyped-def]
    x, parts, bias, scale, shift, out, R, D, eps, PARTS: tl.constexpr, NORM: tl.constexpr, POST: tl.constexpr, BLOCK: tl.constexpr,
    EARLY: tl.constexpr,
):  # fmt: skip
    """Add the parts (parts, R, D) of a branch and its bias to x (R, D) in place -> out: norm(x) (R, D), which is x too where post."""
    row, k = tl.program_id(0), tl.arange(0, BLOCK)
    inside = k < D
    if scale is not None:
        scales = tl.load(scale + k, inside, other=0.0).to(tl.float32)
    if shift is not None:
        shifts = tl.load(shift + k, inside, other=0.0).to(tl.float32)
    if bias is not None:
        biases = tl.load(bias + k, inside, other=0.0).to(tl.float32)
    grid_dependency_wait(EARLY)  # parameters are on their way
    value = tl.load(x + row * D + k, inside, other=0.0).to(tl.float32)
    if PARTS > 0:
        branch = tl.zeros([BLOCK], tl.float32)
        for part in tl.static_range(PARTS):
            branch += tl.load(parts + (part * R + row) * D + k, inside, other=0.0)
        if bias is not None:
            branch += biases
        value = (value + branch.to(x.dtype.element_ty).to(tl.float32)).to(x.dtype.element_ty).to(tl.float32)
    result = value
    if NORM != "none":
        mean = 0.0
        if NORM == "layer":
            mean = tl.sum(value) / D
        apart = tl.where(inside, value - mean, 0.0)
        rate = 1.0 / tl.sqrt(tl.sum(apart * apart) / D + eps)
        result = (value - mean) * rate
        if scale is not None:
            result = result * scales
        if shift is not None:
            result = result + shifts
    if POST:
        tl.store(x + row * D + k, result, inside)
    elif PARTS > 0:
        tl.store(x + row * D + k, value, inside)
    tl.store(out + row * D + k, result, inside)


@triton.jit
def with_rope(base, cosines, sines, k, inside, K, ROTARY: tl.constexpr):  # type: ignore[no-untyped-def]
    """A head vector, turned by its position where positions are told so."""
    x = tl.load(base + k, inside, other=0.0).to(tl.float32)
    if ROTARY:
        partner = tl.load(base + (k + K // 2) % K, inside, other=0.0).to(tl.float32)
        partner = tl.where(k < K // 2, -partner, partner)
        x = x * tl.load(cosines + k, inside, other=0.0) + partner * tl.load(sines + k, inside, other=0.0)
        x = x.to(base.dtype.element_ty).to(tl.float32)
    return x


@triton.jit
def attend(  # type: ignore[no-untyped-def]
    qkv, keys, values, lengths, table, out, partial_out, partial_max, partial_sum, positions, row_stride, group_stride, window, scale,
    H: tl.constexpr, G: tl.constexpr, K: tl.constexpr, ROTARY: tl.constexpr, WHOLE: tl.constexpr, SPLIT: tl.constexpr,
    BLOCK_S: tl.constexpr, BLOCK_K: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """One head of one row's new token looks at SPLIT positions: those of the cache, and first at itself; its key and value are kept.

    Each part's mean, weight and largest score are written where there are several parts, else what all of it gives (R, H K).
    """
    row, head, part = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    k = tl.arange(0, BLOCK_K)
    inside = k < K
    length = tl.load(lengths + row)
    group = head // (H // G)
    mine = qkv + row * (H + 2 * G) * K
    cosines = table + length * K
    sines = cosines + positions * K
    cache_at = row.to(tl.int64) * row_stride + group * group_stride
    begin = tl.maximum(part * SPLIT, length + 1 - window)
    end = tl.minimum((part + 1) * SPLIT, length)
    s = begin + tl.arange(0, BLOCK_S)
    there = (s < end)[:, None] & inside[None, :]
    at = cache_at + s[:, None] * K + k[None, :]
    near, worth = tl.load(keys + at, there, other=0.0), tl.load(values + at, there, other=0.0)
    grid_dependency_wait(EARLY)  # what earlier steps kept is on its way
    q = with_rope(mine + head * K, cosines, sines, k, inside, K, ROTARY) * scale
    own = part == 0
    key = with_rope(mine + (H + group) * K, cosines, sines, k, inside, K, ROTARY)
    value = tl.load(mine + (H + G + group) * K + k, inside, other=0.0).to(tl.float32)
    keeps = inside & own & (head % (H // G) == 0)
    tl.store(keys + cache_at + length * K + k, key, keeps)
    tl.store(values + cache_at + length * K + k, value, keeps)
    top = tl.where(own, tl.sum(q * key), float("-inf"))
    total = tl.where(own, 1.0, 0.0)
    attn_out = tl.where(own, value, 0.0)
    for place in range(begin, end, BLOCK_S):
        s = place + tl.arange(0, BLOCK_S)
        later = s + BLOCK_S  # asked for before these are looked at
        there = (later < end)[:, None] & inside[None, :]
        at = cache_at + later[:, None] * K + k[None, :]
        near_later, worth_later = tl.load(keys + at, there, other=0.0), tl.load(values + at, there, other=0.0)
        score = tl.sum(near.to(tl.float32) * q[None, :], 1)
        score = tl.where(s < end, score, float("-inf"))
        higher = tl.maximum(top, tl.max(score))
        weight, kept = tl.exp(score - higher), tl.exp(top - higher)
        total = total * kept + tl.sum(weight)
        attn_out = attn_out * kept + tl.sum(weight[:, None] * worth.to(tl.float32), 0)
        top = higher
        near, worth = near_later, worth_later
    if WHOLE:
        tl.store(out + (row * H + head) * K + k, attn_out / total, inside)
    else:
        place = (part * tl.num_programs(0) + row) * H + head
        tl.store(partial_out + place * K + k, attn_out, inside)
        tl.store(partial_max + place, top)
        tl.store(partial_sum + place, total)


@triton.jit
def gather(partial_out, partial_max, partial_sum, out, parts, K, BLOCK_P: tl.constexpr, BLOCK_K: tl.constexpr, EARLY: tl.constexpr):  # type: ignore[no-untyped-def]
    """What the parts of a head found, weighed together."""
    grid_dependency_wait(EARLY)
    heads, head = tl.num_programs(0), tl.program_id(0)
    p, k = tl.arange(0, BLOCK_P), tl.arange(0, BLOCK_K)
    place = p * heads + head
    top = tl.load(partial_max + place, p < parts, other=float("-inf"))
    weight = tl.exp(top - tl.max(top))
    total = tl.sum(weight * tl.load(partial_sum + place, p < parts, other=0.0))
    mix = tl.load(partial_out + place[:, None] * K + k[None, :], (p < parts)[:, None] & (k < K)[None, :], other=0.0)
    tl.store(out + head * K + k, tl.sum(weight[:, None] * mix, 0) / total, k < K)


@triton.jit
def highest(logits, out, stride, V, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Of logits (R, V) the place of each row's highest, the first of equals; what is no number is higher than all."""
    row, cols = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    top, place = tl.full([BLOCK], float("-inf"), tl.float32), cols
    for first in tl.range(0, V, BLOCK):
        x = tl.load(logits + row * stride + first + cols, first + cols < V, other=float("-inf")).to(tl.float32)
        x = tl.where(x != x, float("inf"), x)
        place = tl.where(x > top, first + cols, place)
        top = tl.maximum(x, top)
    best = tl.max(top, 0)
    tl.store(out + row, tl.min(tl.where(top == best, place, V), 0).to(tl.int64))


def likeliest(logits: Tensor) -> Tensor:
    """logits (R, V) -> ids (R,); a third of the time that PyTorch takes for few rows."""
    out = torch.empty(len(logits), dtype=torch.int64, device=logits.device)
    highest[(len(logits),)](logits, out, logits.stride(0), logits.size(1), BLOCK=4096, num_warps=16)
    return out


def read_many(
    x: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor, *, kind: str = "none", gated: bool = False, parts: int = 0
) -> None:
    """parts: 0 for the whole product, else how many sums over shares of the inputs are kept apart, in `out` (parts, R, N)."""
    found = None if gated else decode_rows.cut_of(weight, whole=not parts)
    if found and decode_rows.product(x, weight, bias, out, found, kind=kind, whole=not parts):
        return
    rows, n, m = len(x), weight.size(0) // (2 if gated else 1), weight.size(1)
    tile, shape = 16 if rows <= 16 else 32, dict(PRODUCT)
    if x.dtype == torch.float32:
        shape |= {"BLOCK_M": 64, "AHEAD": 64, "num_stages": 3}
    elif gated:
        shape["AHEAD"] //= 2
    block = shape["BLOCK_M"]
    share = triton.cdiv(triton.cdiv(m, max(parts, 1)), block) * block
    many_rows[(triton.cdiv(n, shape["BLOCK_N"]), triton.cdiv(rows, tile), max(parts, 1))](
        x, weight, None if parts else bias, out, rows, n, m, share,
        KIND=kind, GATED=gated, PARTIAL=parts > 0, ROWS=tile, **shape, **launch(),
    )  # fmt: skip


def add_and_norm(x: Tensor, parts: Tensor | None, bias: Tensor | None, norm: Any, out: Tensor, *, post: bool = False) -> None:
    """norm: its kind, scale, shift and least variance."""
    rows, d = x.shape
    block = triton.next_power_of_2(d)
    add_and_norm_kernel[(rows,)](
        x, parts, bias, norm[1], norm[2], out, rows, d, norm[3],
        PARTS=0 if parts is None else len(parts), NORM=norm[0], POST=post, BLOCK=block, num_warps=4 if block <= 1024 else 8, **launch(),
    )  # fmt: skip


def decode_attention(
    qkv: Tensor, keys: Tensor, values: Tensor, lengths: Tensor, rotary: Tensor | None, out: Tensor, workspace: Any, *, window: int,
    heads: int,
) -> None:  # fmt: skip
    """qkv (R, (H + 2 G) K), keys and values (R, G, S, K) of a cache -> out (R, H K). workspace: tensors for several parts, or None."""
    rows, kv_heads, size, head = keys.shape
    table = qkv if rotary is None else rotary
    partial_out, partial_max, partial_sum = workspace or (out, out, out)
    parts, block_k = len(partial_max) if workspace else 1, triton.next_power_of_2(head)
    given = (qkv, keys, values, lengths, rotary, out, workspace)
    if not (decode_rows.supports_attention(keys, heads) and decode_rows.decode_attention(*given, window=window, heads=heads, split=SPLIT)):
        attend[(rows, heads, parts)](
            qkv, keys, values, lengths, table, out, partial_out, partial_max, partial_sum, 0 if rotary is None else rotary.size(1),
            keys.stride(0), keys.stride(1), window or size + 1, head**-0.5,
            H=heads, G=kv_heads, K=head, ROTARY=rotary is not None, WHOLE=not workspace, SPLIT=SPLIT, BLOCK_K=block_k, **ATTENTION,
            **launch(),
        )  # fmt: skip
    if workspace:
        gather[(rows * heads,)](
            partial_out,
            partial_max,
            partial_sum,
            out,
            parts,
            head,
            BLOCK_P=triton.next_power_of_2(parts),
            BLOCK_K=block_k,
            num_warps=1,
            **launch(),
        )
