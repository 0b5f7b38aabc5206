"""The recursions of CTC and the transducer, one program for each row and direction, and the transducer's joint in one pass each way.

A program holds a state, or a label, in each lane and walks along the frames, or the diagonals, in the precision of what it is given. What
its neighbours had before it reads back from where they wrote it, behind a barrier. Nothing is added by two programs, so the bits are the
same in every run.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

from weft.nn.alignment import ctc, transducer

NEVER = float("-inf")


@triton.jit
def _log_add(a, b):
    """log(exp(a) + exp(b)), also where both are -inf."""
    high = tl.maximum(a, b)
    safe = tl.where(high == float("-inf"), 0.0, high)
    return tl.where(high == float("-inf"), high, safe + tl.log(tl.exp(a - safe) + tl.exp(b - safe)))


@triton.jit
def _ctc(emitted, skip, frames, labels, found, ROWS, T, L, BLOCK: tl.constexpr):
    """Forwards where the second axis is 0, backwards where it is 1; positions in `found` (2, B, T, L) are those of `emitted`."""
    row, back = tl.program_id(0).to(tl.int64), tl.program_id(1)
    lane = tl.arange(0, BLOCK)
    length, last = tl.load(frames + row).to(tl.int32), 2 * tl.load(labels + row).to(tl.int32)
    step = 1 - 2 * back
    state = tl.where(back == 1, last - lane, lane)
    valid = (lane <= last) & (lane < L)
    jumps = tl.load(skip + row * L + state + 2 * back, mask=valid & (lane >= 2), other=0) != 0
    emitted += row * T * L
    found += (back * ROWS + row) * T * L
    frame = back * (length - 1)
    begins = valid & (lane < 2) & (length > 0)
    x = tl.load(emitted + frame * L + state, mask=begins, other=float("-inf"))
    tl.store(found + frame * L + state, x, mask=begins)
    for _ in range(1, length):
        tl.debug_barrier()
        near = tl.load(found + frame * L + state - step, mask=valid & (lane >= 1), other=float("-inf"))
        far = tl.load(found + frame * L + state - 2 * step, mask=valid & jumps, other=float("-inf"))
        frame += step
        own = tl.load(emitted + frame * L + state, mask=valid, other=float("-inf"))
        x = _log_add(_log_add(x, near), far) + own
        tl.store(found + frame * L + state, x, mask=valid)


def ctc_forward_backward(emitted: Tensor, skip: Tensor, frame_lengths: Tensor, label_lengths: Tensor) -> tuple[Tensor, Tensor]:
    """As `nn.alignment.ctc.forward_backward`."""
    rows, frames, states = emitted.shape
    emitted = emitted.contiguous()
    found = emitted.new_full((2, rows, frames, states), NEVER)
    block = max(32, triton.next_power_of_2(states))
    given = (emitted, skip.to(torch.int8).contiguous(), frame_lengths, label_lengths, found)
    _ctc[(rows, 2)](*given, rows, frames, states, BLOCK=block, num_warps=max(1, min(8, block // 64)))
    alpha, beta = found
    total = ctc.log_likelihood(alpha, frame_lengths, label_lengths)
    there = ctc.inside(frame_lengths, label_lengths, frames, states) & (total > NEVER)[:, None, None] & (emitted > NEVER)
    return total, torch.where(there, alpha + beta - emitted - total[:, None, None], NEVER).exp()


@triton.jit
def _transducer(blank, label, frames, labels, found, ROWS, T, W, BLOCK: tl.constexpr):
    """Forwards where the second axis is 0, backwards where it is 1; positions in `found` (2, B, T, W) are those of `blank`."""
    row, back = tl.program_id(0).to(tl.int64), tl.program_id(1)
    lane = tl.arange(0, BLOCK)
    length, last = tl.load(frames + row).to(tl.int32), tl.load(labels + row).to(tl.int32)
    step = 1 - 2 * back
    said = tl.where(back == 1, last - lane, lane)
    inside = lane <= last
    blank += row * T * W
    label += row * T * W
    found += (back * ROWS + row) * T * W
    begins = lane == 0
    end = tl.load(blank + (length - 1) * W + last)
    x = tl.where(begins, tl.where(back == 1, end, 0.0), float("-inf"))
    tl.store(found + back * (length - 1) * W + said, x, mask=begins)
    for diagonal in range(1, length + last):
        tl.debug_barrier()
        time = diagonal - lane
        valid = inside & (time >= 0) & (time < length)
        frame = tl.where(back == 1, length - 1 - time, time)
        here = frame * W + said
        near = tl.load(found + here - step, mask=valid & (lane >= 1), other=float("-inf"))
        before = 1 - back  # a step forwards is told where it begins
        by_blank = tl.load(blank + here - before * W, mask=valid & (time >= 1), other=float("-inf"))
        by_label = tl.load(label + here - before, mask=valid & (lane >= 1), other=float("-inf"))
        x = tl.where(valid, _log_add(x + by_blank, near + by_label), float("-inf"))
        tl.store(found + here, x, mask=valid)


def transducer_forward_backward(
    blank: Tensor, label: Tensor, frame_lengths: Tensor, label_lengths: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """As `nn.alignment.transducer.forward_backward`."""
    rows, frames, width = blank.shape
    blank, label = blank.contiguous(), F.pad(label, (0, 1), value=NEVER)
    found = blank.new_full((2, rows, frames, width), NEVER)
    block = max(32, triton.next_power_of_2(width))
    given = (blank, label, frame_lengths, label_lengths, found)
    _transducer[(rows, 2)](*given, rows, frames, width, BLOCK=block, num_warps=max(1, min(8, block // 64)))
    alpha, beta = found
    return transducer.shares(alpha, beta, blank, label, frame_lengths, label_lengths)


@triton.jit
def _joint(logits, targets, frames, labels, blank, label, whole, T, W, V, BLANK, BLOCK: tl.constexpr):
    """Log-probability of the blank and of the next label at each position, and the logarithm of the sum over the vocabulary."""
    place = tl.program_id(0).to(tl.int64)
    row, frame, said = place // (T * W), (place // W) % T, place % W
    if (frame < tl.load(frames + row)) & (said <= tl.load(labels + row)):
        logits += place * V
        top, total = float("-inf"), 0.0
        for start in range(0, V, BLOCK):
            lane = start + tl.arange(0, BLOCK)
            x = tl.load(logits + lane, mask=lane < V, other=float("-inf")).to(tl.float32)
            higher = tl.maximum(top, tl.max(x, 0))
            total = total * tl.exp(top - higher) + tl.sum(tl.exp(x - higher), 0)
            top = higher
        sum_ = top + tl.log(total)
        tl.store(whole + place, sum_)
        tl.store(blank + place, tl.load(logits + BLANK).to(tl.float32) - sum_)
        if said < W - 1:
            target = tl.load(targets + row * (W - 1) + said)
            tl.store(label + (row * T + frame) * (W - 1) + said, tl.load(logits + target).to(tl.float32) - sum_)


@triton.jit
def _joint_gradient(
    logits, targets, frames, labels, by_blank, by_label, whole, gradient, T, W, V, BLANK, BLOCK: tl.constexpr
):  # fmt: skip
    """Of the log-likelihood by the logits; zeros where no path leads."""
    place = tl.program_id(0).to(tl.int64)
    row, frame, said = place // (T * W), (place // W) % T, place % W
    there = (frame < tl.load(frames + row)) & (said <= tl.load(labels + row))
    more = there & (said < W - 1)
    at_blank = tl.load(by_blank + place, mask=there, other=0.0)
    at_label = tl.load(by_label + (row * T + frame) * (W - 1) + said, mask=more, other=0.0)
    target = tl.load(targets + row * (W - 1) + said, mask=more, other=-1)
    share, sum_ = at_blank + at_label, tl.load(whole + place, mask=there, other=0.0)
    for start in range(0, V, BLOCK):
        lane = start + tl.arange(0, BLOCK)
        x = tl.load(logits + place * V + lane, mask=there & (lane < V), other=0.0).to(tl.float32)
        found = tl.where(lane == BLANK, at_blank, 0.0) + tl.where(lane == target, at_label, 0.0) - share * tl.exp(x - sum_)
        tl.store(gradient + place * V + lane, tl.where(there, found, 0.0).to(gradient.dtype.element_ty), mask=lane < V)


def transducer_logits(
    logits: Tensor, frame_lengths: Tensor, labels: Tensor, label_lengths: Tensor, blank: int, with_grad: bool
) -> tuple[Tensor, Tensor]:
    """logits (B, T, U + 1, V) -> log-likelihood (B,) and, to `with_grad`, its gradient in the precision of the logits."""
    rows, frames, width, size = logits.shape
    logits, labels = logits.contiguous(), labels.contiguous()
    by_blank = torch.full((rows, frames, width), NEVER, device=logits.device)
    by_label = torch.full((rows, frames, width - 1), NEVER, device=logits.device)
    whole = torch.empty_like(by_blank)
    given, block = (logits, labels, frame_lengths, label_lengths), min(4096, max(32, triton.next_power_of_2(size)))
    sizes = {"T": frames, "W": width, "V": size, "BLANK": blank, "BLOCK": block, "num_warps": max(1, min(8, block // 256))}
    places = (rows * frames * width,)
    _joint[places](*given, by_blank, by_label, whole, **sizes)
    found = transducer_forward_backward(by_blank.double(), by_label.double(), frame_lengths, label_lengths)
    total, at_blank, at_label = (each.float().contiguous() for each in found)
    if not with_grad:
        return total, logits.new_empty(0)
    gradient = torch.empty_like(logits)
    _joint_gradient[places](*given, at_blank, at_label, whole, gradient, **sizes)
    return total, gradient
