"""Transducer (Graves, 2012, arXiv:1211.3711): the probability of labels, summed over all ways to say them while frames are read.

At frame t with u labels said, a path reads the next frame, which is called blank, or says label u + 1. It begins at (0, 0) and ends with a
blank at (T - 1, U). All positions with the same t + u are computed at once.

Shapes: B batch, T frames, U labels, N = T + U diagonals.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

NEVER = float("-inf")


def backwards(x: Tensor, last_frame: Tensor, last_label: Tensor) -> Tensor:
    """x (B, T, U + 1) read from (last frame, last label) of each row (B,) to (0, 0); anything behind them."""
    frame = (last_frame[:, None] - torch.arange(x.size(1), device=x.device)).clamp(min=0)
    label = (last_label[:, None] - torch.arange(x.size(2), device=x.device)).clamp(min=0)
    return x.gather(1, frame[:, :, None].expand_as(x)).gather(2, label[:, None].expand_as(x))


def skewed(x: Tensor) -> Tensor:
    """x (B, T, W) -> (N, B, W) with [n, :, u] = x[:, n - u, u], -inf where there is no such frame; N = T + W - 1."""
    rows, frames, width = x.shape
    padded = F.pad(x.mT, (0, width), value=NEVER).flatten(1)  # (B, W (T + W)), of which each next row begins one later
    return padded[:, : width * (frames + width - 1)].view(rows, width, frames + width - 1).permute(2, 0, 1)


def unskewed(x: Tensor, frames: int) -> Tensor:
    """x (N, B, W) -> (B, T, W) with [:, t, u] = x[t + u, :, u]."""
    number, rows, width = x.shape
    flat = F.pad(x.permute(1, 2, 0).flatten(1), (0, width))
    return flat.view(rows, width, number + 1)[:, :, :frames].mT


def recursion(blank: Tensor, label: Tensor, start: Tensor) -> Tensor:
    """x[t, u] = log(exp(x[t - 1, u] + blank[t, u]) + exp(x[t, u - 1] + label[t, u])), and start (B,) at (0, 0): (B, T, W) thrice.

    blank[0] and label[:, 0] are -inf: nothing leads there.
    """
    rows, frames, width = blank.shape
    by_blank, by_label = skewed(blank).contiguous(), skewed(label).contiguous()
    found = blank.new_full((len(by_blank), rows, width + 1), NEVER)  # the first column is before the first label
    found[0, :, 1] = start
    for n in range(1, len(found)):
        before = found[n - 1]
        torch.logaddexp(before[:, 1:] + by_blank[n], before[:, :-1] + by_label[n], out=found[n, :, 1:])
    return unskewed(found[:, :, 1:], frames)


def forward_backward(blank: Tensor, label: Tensor, frame_lengths: Tensor, label_lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Log-probability of a blank (B, T, U + 1) and of the next label (B, T, U), lengths (B,) twice -> log-likelihood (B,), and the
    probability that a path takes each blank (B, T, U + 1) and each label (B, T, U), which are its gradients; 0 where no path exists.

    Every row has a frame at least. The way back is the same recursion, of frames and labels that are read from the end.
    """
    padded, last = F.pad(label, (0, 1), value=NEVER), frame_lengths - 1  # behind the last label nothing can be said
    to_blank, to_label = F.pad(blank, (0, 0, 1, -1), value=NEVER), F.pad(padded, (1, -1), value=NEVER)
    back_blank, back_label = backwards(blank, last, label_lengths), backwards(padded, last, label_lengths)
    end = back_blank[:, 0, 0].clone()
    back_blank[:, 0], back_label[:, :, 0] = NEVER, NEVER
    both = recursion(torch.cat([to_blank, back_blank]), torch.cat([to_label, back_label]), torch.cat([torch.zeros_like(end), end]))
    alpha, beta = both.chunk(2)
    return shares(alpha, backwards(beta, last, label_lengths), blank, padded, frame_lengths, label_lengths)


def shares(
    alpha: Tensor, beta: Tensor, blank: Tensor, label: Tensor, frame_lengths: Tensor, label_lengths: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Log-probability of all paths to a position and from it, its own step included, of blank and label there (B, T, U + 1) each ->
    log-likelihood (B,), and the probability of each blank (B, T, U + 1) and label (B, T, U)."""
    row, last, total = torch.arange(len(blank), device=blank.device), frame_lengths - 1, beta[:, 0, 0]
    frame, said = torch.arange(blank.size(1), device=blank.device)[:, None], torch.arange(blank.size(2), device=blank.device)
    there = (frame <= last[:, None, None]) & (said <= label_lengths[:, None, None]) & (total > NEVER)[:, None, None]
    after_blank = F.pad(beta, (0, 0, -1, 1), value=NEVER).masked_fill(frame >= last[:, None, None], NEVER)
    after_blank[row, last, label_lengths] = 0.0  # behind the blank that ends there is nothing
    after_label = F.pad(beta, (-1, 1), value=NEVER).masked_fill(said >= label_lengths[:, None, None], NEVER)
    steps = (alpha + each + after - total[:, None, None] for each, after in ((blank, after_blank), (label, after_label)))
    by_blank, by_label = (torch.where(there, step, NEVER).exp() for step in steps)
    return total, by_blank, by_label[:, :, :-1]
