"""The loss of each row of logits, and its gradient in the logits' place, as one Triton kernel: a program for each row.

It reads a row twice, the second time mostly from the cache. Sums are made in fp32.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

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


def losses_of_rows(logits: Tensor, size: int, targets: Tensor, learn: bool) -> Tensor:
    """logits (N, at least size), row after row, targets (N,) -> (N,); what lies beyond `size` becomes zero."""
    assert logits.is_contiguous()
    losses = torch.empty(len(logits), dtype=torch.float32, device=logits.device)
    block = min(4096, triton.next_power_of_2(logits.size(1)))
    _row[(len(logits),)](logits, targets, losses, logits.size(1), size, IGNORED=IGNORE, LEARN=learn, BLOCK=block, num_warps=4)
    return losses
