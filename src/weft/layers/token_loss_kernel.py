"""The loss of each row of logits, and its gradient in the logits' place, as one Triton kernel: a program for each row.

A row stays in registers, so that it is read once; one that is too long for them is read twice. Sums are made in fp32.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from weft.layers import token_loss
from weft.layers.token_loss import IGNORE


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
                change = tl.exp2(_read(logits, place, width, size) - whole) - tl.where(place == target, 1.0, 0.0)
                tl.store(logits + place, change.to(kind), mask=place < width)


@triton.jit
def _piece(logits, FIRST: tl.constexpr, LENGTH: tl.constexpr, WIDTH: tl.constexpr, SIZE: tl.constexpr):
    """Some logits of a row as they are, -inf beyond the vocabulary."""
    place = FIRST + tl.arange(0, LENGTH)
    whole: tl.constexpr = FIRST + LENGTH <= WIDTH
    x = tl.load(logits + place) if whole else tl.load(logits + place, mask=place < WIDTH, other=float("-inf"))
    if FIRST + LENGTH > SIZE:
        x = tl.where(place < SIZE, x.to(tl.float32), float("-inf")).to(x.dtype)
    return x


@triton.jit
def _weights(x, top):
    """Of logits beside their row's largest, which is given in units of log2."""
    return tl.exp2(x.to(tl.float32) * 1.4426950408889634 - top)


@triton.jit
def _spread(logits, x, whole, FIRST: tl.constexpr, LENGTH: tl.constexpr, WIDTH: tl.constexpr):
    """Probabilities in the logits' place."""
    place = FIRST + tl.arange(0, LENGTH)
    if FIRST + LENGTH > WIDTH:
        tl.store(logits + place, _weights(x, whole).to(x.dtype), mask=place < WIDTH)
    else:
        tl.store(logits + place, _weights(x, whole).to(x.dtype))


@triton.jit
def _row_held(
    logits, targets, losses, WIDTH: tl.constexpr, SIZE: tl.constexpr, IGNORED: tl.constexpr, LEARN: tl.constexpr,
    A: tl.constexpr, B: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """The same with all of a row held in three pieces; lengths must be powers of two, so three fit closer than one."""
    row = tl.program_id(0).to(tl.int64)
    logits += row * WIDTH
    target = tl.load(targets + row)
    counted = target != IGNORED
    own = tl.load(logits + target, mask=counted, other=0.0).to(tl.float32)
    a, b, c = _piece(logits, 0, A, WIDTH, SIZE), _piece(logits, A, B, WIDTH, SIZE), _piece(logits, A + B, C, WIDTH, SIZE)
    top = tl.maximum(tl.maximum(tl.max(a, 0), tl.max(b, 0)), tl.max(c, 0)).to(tl.float32) * 1.4426950408889634
    whole = top + tl.log2(tl.sum(_weights(a, top), 0) + tl.sum(_weights(b, top), 0) + tl.sum(_weights(c, top), 0))
    tl.store(losses + row, tl.where(counted, whole * 0.6931471805599453 - own, 0.0))
    if LEARN:
        whole = tl.where(counted, whole, float("inf"))  # then all weights are zero
        tl.debug_barrier()  # the target's logit is read by all threads before one writes it
        _spread(logits, a, whole, 0, A, WIDTH)
        _spread(logits, b, whole, A, B, WIDTH)
        _spread(logits, c, whole, A + B, C, WIDTH)
        tl.debug_barrier()
        tl.store(logits + target, (_weights(own, whole) - 1.0).to(logits.dtype.element_ty), mask=counted)


WARPS = 16
"""Groups of 32 threads that hold a row."""
TWICE = {"BLOCK": 4096, "num_warps": 16}
"""Logits that are read at once of a row that is read twice, and the groups of 32 threads that read them."""


def pieces(width: int) -> tuple[int, int, int]:
    """Three powers of two that a row fills nearly."""
    first = 1 << (width.bit_length() - 1)
    second = max(1, (1 << (width - first).bit_length()) >> 1)
    return first, second, triton.next_power_of_2(max(1, width - first - second))


def losses_of_rows(logits: Tensor, size: int, targets: Tensor, learn: bool) -> Tensor:
    """logits (N, at least size), row after row, targets (N,) -> (N,); what lies beyond `size` becomes zero."""
    assert logits.is_contiguous()
    losses, width = torch.empty(len(logits), dtype=torch.float32, device=logits.device), logits.size(1)
    given = (logits, targets, losses)
    if width <= token_loss.HELD and logits.element_size() == 2:
        a, b, c = pieces(width)
        _row_held[(len(logits),)](*given, WIDTH=width, SIZE=size, IGNORED=IGNORE, LEARN=learn, A=a, B=b, C=c, num_warps=WARPS)
        return losses
    shape = TWICE | {"BLOCK": min(TWICE["BLOCK"], triton.next_power_of_2(width))}
    _row[(len(logits),)](*given, width, size, IGNORED=IGNORE, LEARN=learn, **shape)
    return losses
