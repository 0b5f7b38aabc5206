"""The loss of each row of logits, and its gradient in the logits' place, as one Triton kernel.

A row of bf16 stays in registers, in pairs of 32 bits, so that it is read once; one that is too long for them is read twice. Sums are
made in fp32. Weights beside the largest are kept in bf16, as logits are, whose own rounding changes them more.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from weft.kernels import chunked_cross_entropy
from weft.kernels.chunked_cross_entropy import IGNORE


@triton.jit
def _read(logits, place, width, size):
    """Logits in units of log2, -inf beyond the vocabulary. Only `width` bounds the read, so that it is made in wide pieces."""
    x = tl.load(logits + place, mask=place < width, other=0.0).to(tl.float32) * 1.4426950408889634
    return tl.where(place < size, x, float("-inf"))


@triton.jit
def _row(logits, targets, losses, width, size, IGNORED: tl.constexpr, LEARN: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    logits += row * width
    target = tl.load(targets + row)
    kind: tl.constexpr = logits.dtype.element_ty
    if target == IGNORED:
        tl.store(losses + row, 0.0)
        if LEARN:
            for start in range(0, width, BLOCK):
                place = start + tl.arange(0, BLOCK)
                tl.store(logits + place, tl.zeros([BLOCK], kind), mask=place < width)
    else:
        own = tl.load(logits + target).to(tl.float32)
        top, total = float("-inf"), 0.0
        for start in range(0, width, BLOCK):
            x = _read(logits, start + tl.arange(0, BLOCK), width, size)
            higher = tl.maximum(top, tl.max(x, 0))
            total = total * tl.exp2(top - higher) + tl.sum(tl.exp2(x - higher), 0)
            top = higher
        whole = top + tl.log2(total)
        tl.store(losses + row, whole * 0.6931471805599453 - own)
        if LEARN:
            for start in range(0, width, BLOCK):
                place = start + tl.arange(0, BLOCK)
                grad_out = tl.exp2(_read(logits, place, width, size) - whole) - tl.where(place == target, 1.0, 0.0)
                tl.store(logits + place, grad_out.to(kind), mask=place < width)


@triton.jit
def _low(x):
    """The first bf16 number of each pair, as fp32."""
    return (x << 16).to(tl.float32, bitcast=True)


@triton.jit
def _high(x):
    """The second."""
    return (x & -65536).to(tl.float32, bitcast=True)


@triton.jit
def _pair(low, high):
    """Two fp32 numbers rounded to a pair, by an instruction that the compiler cannot see through: else it would hold both apart."""
    return tl.inline_asm_elementwise("cvt.rn.bf16x2.f32 $0, $1, $2;", "=r,r,r", [high, low], dtype=tl.int32, is_pure=True, pack=1)


@triton.jit
def _larger(x):
    """The larger number of each pair, and digits that bf16 has not: a pair read as one number is above all its second half."""
    turned = (x << 16) | ((x >> 16) & 65535)
    return tl.maximum(x.to(tl.float32, bitcast=True), turned.to(tl.float32, bitcast=True))


@triton.jit
def _pairs(logits, FIRST: tl.constexpr, PIECE: tl.constexpr, WIDTH: tl.constexpr, SIZE: tl.constexpr):
    """Some of a row's logits in pairs, the lowest numbers beyond the vocabulary: 0xff7f, as -inf makes a pair that is no number."""
    place = tl.arange(0, PIECE)
    x = tl.load(logits + FIRST + place) if FIRST + PIECE <= WIDTH else tl.load(logits + FIRST + place, place < WIDTH - FIRST, other=0)
    if 2 * (FIRST + PIECE) > SIZE:
        left = SIZE - 2 * FIRST
        x = tl.where(2 * place + 1 < left, x, tl.where(2 * place < left, (x & 65535) | -8454144, -8388737))
    return x


@triton.jit
def _row_held(
    logits, targets, losses, rows, WIDTH: tl.constexpr, SIZE: tl.constexpr, IGNORED: tl.constexpr, LEARN: tl.constexpr,
    PIECE: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """The same with all of a row held, in pieces. A program takes rows in turn and fetches the next ones while it works on one.

    The compiler fetches ahead only in a loop without barriers of ours. None is needed: the one inside the sum stands between reading the
    target's logit and writing it.
    """
    for row in tl.range(tl.program_id(0).to(tl.int64), rows, tl.num_programs(0), num_stages=STAGES):
        numbers = logits + row * WIDTH
        pairs = numbers.to(tl.pointer_type(tl.int32))
        target = tl.load(targets + row).to(tl.int32)
        counted = target != IGNORED
        held = ()
        for first in tl.static_range(0, WIDTH // 2, PIECE):
            held = held + (_pairs(pairs, first, PIECE, WIDTH // 2, SIZE),)
        larger = _larger(held[0])
        for i in tl.static_range(1, len(held)):
            larger = tl.maximum(larger, _larger(held[i]))
        top = _high(tl.max(larger, 0).to(tl.int32, bitcast=True)) * 1.4426950408889634
        own = tl.load(numbers + target, mask=counted, other=0.0).to(tl.float32)
        total, weights = tl.zeros([PIECE], tl.float32), ()
        for i in tl.static_range(len(held)):
            low = tl.exp2(_low(held[i]) * 1.4426950408889634 - top)
            high = tl.exp2(_high(held[i]) * 1.4426950408889634 - top)
            total += low + high
            weights = weights + (_pair(low, high),)
        whole = tl.sum(total, 0)
        tl.store(losses + row, tl.where(counted, (top + tl.log2(whole)) * 0.6931471805599453 - own, 0.0))
        if LEARN:
            share = tl.where(counted, 1.0 / whole, 0.0)
            for i in tl.static_range(len(weights)):
                _spread(pairs + i * PIECE, weights[i], share, target - 2 * i * PIECE, WIDTH // 2 - i * PIECE)


@triton.jit
def _spread(pairs, weights, share, target, LEFT: tl.constexpr):
    """Probabilities, less 1 at the target, in the logits' place."""
    place = tl.arange(0, weights.shape[0])
    mine, odd = place == target >> 1, (target & 1).to(tl.float32)
    found = _pair(_low(weights) * share - tl.where(mine, 1.0 - odd, 0.0), _high(weights) * share - tl.where(mine, odd, 0.0))
    if weights.shape[0] > LEFT:
        tl.store(pairs + place, found, mask=place < LEFT)
    else:
        tl.store(pairs + place, found)


ONCE = {"PROGRAMS": 1, "STAGES": 3, "num_warps": 16}
"""For rows that are held: programs of a processor where they are long, rows at once in a program (one in work, the others on their way),
groups of 32 threads."""
LEAST = 1024
"""Logits of the shortest row that is held: with fewer pairs than threads the sum would have no barrier."""
TWICE = {"BLOCK": 4096, "num_warps": 16}
"""Logits that are read at once of a row that is read twice, and the groups of 32 threads that read them."""


def losses_of_rows(logits: Tensor, size: int, targets: Tensor, learn: bool) -> Tensor:
    """logits (N, at least size), row after row, targets (N,) -> (N,); what lies beyond `size` becomes zero."""
    assert logits.is_contiguous()
    losses, (rows, width) = torch.empty(len(logits), dtype=torch.float32, device=logits.device), logits.shape
    given, common = (logits, targets, losses), {"IGNORED": IGNORE, "LEARN": learn}
    if LEAST <= width <= chunked_cross_entropy.HELD and width % 8 == 0 and logits.dtype == torch.bfloat16:
        programs, shape = once(rows, width, torch.cuda.get_device_properties(logits.device))
        _row_held[(programs,)](*given, rows, WIDTH=width, SIZE=size, **common, **shape)
        return losses
    shape = TWICE | {"BLOCK": min(TWICE["BLOCK"], triton.next_power_of_2(width))}
    _row[(rows,)](*given, width, size, **common, **shape)
    return losses


def once(rows: int, width: int, gpu: Any) -> tuple[int, dict[str, int]]:
    """Programs for rows that are held, and their shape; a thread reads 16 bytes of a piece. Of short rows a processor takes several.

    Rows on their way lie in the memory that a processor's threads share; where it has no room for one, none is fetched before its turn.
    """
    shape = dict(ONCE)
    each = shape.pop("PROGRAMS") * max(1, min(4, chunked_cross_entropy.HELD // width))
    piece = shape["PIECE"] = min(128 * shape["num_warps"], triton.next_power_of_2(width // 2))
    room = gpu.shared_memory_per_block_optin - 2048
    shape["STAGES"] = min(shape["STAGES"], 1 + room // (4 * piece * triton.cdiv(width // 2, piece)))
    return min(rows, each * gpu.multi_processor_count), shape
