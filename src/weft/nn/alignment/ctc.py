"""Connectionist temporal classification (Graves et al., 2006): the probability of labels, summed over all ways to lay them on frames.

A path takes one state in each frame. States are the labels with a blank before, between and behind them; from one frame to the next a path
stays, goes one state on, or two from a label to another one that differs. Everything is computed for each frame of all rows at once, and no
sum is made in an order that could change, so that a GPU gives the same bits every time.

Shapes: B batch, T frames, S labels, L = 2 S + 1 states, V vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor

NEVER = float("-inf")


def states_of(labels: Tensor, blank: int) -> Tensor:
    """labels (B, S) -> what each state says (B, L)."""
    states = labels.new_full((len(labels), 2 * labels.size(1) + 1), blank)
    states[:, 1::2] = labels
    return states


def may_skip(states: Tensor, blank: int) -> Tensor:
    """Whether a state can be reached from the one before the last (B, L): a label that differs from the label before."""
    skip = torch.zeros_like(states, dtype=torch.bool)
    skip[:, 2:] = (states[:, 2:] != blank) & (states[:, 2:] != states[:, :-2])
    return skip


def inside(frame_lengths: Tensor, label_lengths: Tensor, frames: int, states: int) -> Tensor:
    """Which frames and states are no padding (B, T, L)."""
    frame = torch.arange(frames, device=frame_lengths.device) < frame_lengths[:, None]
    state = torch.arange(states, device=frame_lengths.device) <= 2 * label_lengths[:, None]
    return frame[:, :, None] & state[:, None, :]


def backwards(x: Tensor, last_frame: Tensor, last_state: Tensor) -> Tensor:
    """x (B, T, L) read from the last frame (B,) and the last state (B,) of each row to the first; anything behind them."""
    frame = (last_frame[:, None] - torch.arange(x.size(1), device=x.device)).clamp(min=0)
    state = (last_state[:, None] - torch.arange(x.size(2), device=x.device)).clamp(0, x.size(2) - 1)
    return x.gather(1, frame[:, :, None].expand_as(x)).gather(2, state[:, None].expand_as(x))


def recursion(emitted: Tensor, skip: Tensor) -> Tensor:
    """Log-probability of each state in each frame, its own included, with all that leads to it: (B, T, L) and (B, L) -> (B, T, L)."""
    rows, frames, size = emitted.shape
    steps = emitted.transpose(0, 1)
    found = emitted.new_full((frames, rows, size + 2), NEVER)  # the first two columns are before all states
    found[:1, :, 2:4] = steps[:1, :, :2]
    jump = torch.zeros_like(emitted[:, 0]).masked_fill(~skip, NEVER) if frames else emitted
    for time in range(1, frames):
        before = found[time - 1]
        near = torch.logaddexp(before[:, 2:], before[:, 1:-1])
        torch.add(torch.logaddexp(near, before[:, :-2] + jump), steps[time], out=found[time, :, 2:])
    return found[:, :, 2:].transpose(0, 1)


def log_likelihood(alpha: Tensor, frame_lengths: Tensor, label_lengths: Tensor) -> Tensor:
    """alpha of `recursion` (B, T, L) -> log-probability of the labels (B,); -inf where no path exists."""
    if not alpha.size(1):
        return torch.zeros_like(label_lengths, dtype=alpha.dtype).masked_fill(label_lengths > 0, NEVER)
    row, last = torch.arange(len(alpha), device=alpha.device), (frame_lengths - 1).clamp(min=0)
    end = alpha[row, last, 2 * label_lengths]
    total = torch.logaddexp(end, alpha[row, last, (2 * label_lengths - 1).clamp(min=0)].masked_fill(label_lengths == 0, NEVER))
    nothing = torch.zeros_like(total).masked_fill(label_lengths > 0, NEVER)
    return total.where(frame_lengths > 0, nothing)


def forward_backward(emitted: Tensor, skip: Tensor, frame_lengths: Tensor, label_lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probabilities of what the states say (B, T, L), skip (B, L), lengths (B,) twice -> log-likelihood (B,), and the probability of
    each state in each frame given the labels (B, T, L), which is the gradient of the one by the other; 0 where no path exists.

    The way back is the same recursion, of frames and states that are read from the end, and goes beside the way there.
    """
    last_frame, last_state = frame_lengths - 1, 2 * label_lengths
    turned = backwards(skip[:, None], torch.zeros_like(last_frame), last_state + 2)[:, 0]  # of s + 2, as a jump from s comes back to s
    turned[:, :2] = False
    both = torch.cat([emitted, backwards(emitted, last_frame, last_state)])
    alpha, beta = recursion(both, torch.cat([skip, turned])).chunk(2)
    total = log_likelihood(alpha, frame_lengths, label_lengths)
    there = inside(frame_lengths, label_lengths, *emitted.shape[1:]) & (total > NEVER)[:, None, None] & (emitted > NEVER)
    log_share = alpha + backwards(beta, last_frame, last_state) - emitted - total[:, None, None]
    return total, torch.where(there, log_share, NEVER).exp()


def summed_by_label(values: Tensor, labels: Tensor, size: int) -> Tensor:
    """values (B, T, S) of labels (B, S) -> their sums for each label (B, T, V), each made in the same order every time.

    Values of equal labels are added by a product of matrices, in fp64 so that no unit rounds its factors; every label writes the one sum.
    """
    same = labels[:, :, None] == labels[:, None, :]  # (B, S, S)
    place = torch.arange(labels.size(1), device=labels.device)
    first = torch.where(same, place, labels.size(1)).amin(-1) if labels.size(1) else labels  # where a label stands first
    sums = (values.double() @ same.double()).to(values.dtype)
    sums = sums.gather(2, first[:, None].expand_as(values))
    return values.new_zeros(*values.shape[:2], size).scatter_(2, labels[:, None].expand_as(values), sums)
