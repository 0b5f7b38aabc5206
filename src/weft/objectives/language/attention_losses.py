"""Losses of the attention between a target and its source, for any decoder that gives its weights.

Shapes: B batch, T target time, S source time.
"""

from __future__ import annotations

import torch
from torch import Tensor


def coverage_loss(weights: Tensor, written: Tensor) -> Tensor:
    """Attention weights (B, T, S), lengths of targets (B,) -> sum of min(attention now, attention so far) (See et al., 2017)."""
    weights = inside(weights.float(), written)
    before = weights.cumsum(1) - weights
    return torch.minimum(weights, before).sum()


def guided_attention_loss(weights: Tensor, lengths: Tensor, written: Tensor, width: float = 0.2) -> Tensor:
    """Attention weights (B, T, S), lengths of sources and targets (B,) -> sum over the target of the attention away from the diagonal.

    Position n of N in the source costs position t of T in the target W = 1 - exp(-(n/N - t/T)² / 2g²), g the width (Tachibana et al.,
    2017, arXiv:1710.08969).
    """
    cost = diagonal_distance(weights, lengths, written).square().div(-2 * width**2).exp().neg() + 1  # (B, T, S)
    return (inside(weights.float(), written) * cost).sum()


def diagonal_distance(weights: Tensor, lengths: Tensor, written: Tensor) -> Tensor:
    """How far positions of a source and a target are apart, as a share of the lengths: n/N - t/T, both from 0 on (B, T, S)."""
    t, n = (torch.arange(weights.size(dim), device=weights.device, dtype=torch.float32) for dim in (1, 2))
    along = t / written.clamp(min=1)[:, None]  # (B, T)
    return (n / lengths.clamp(min=1)[:, None])[:, None] - along[:, :, None]


def inside(weights: Tensor, written: Tensor) -> Tensor:
    """Weights (B, T, S) without those of the padding behind a target."""
    time = torch.arange(weights.size(1), device=weights.device)
    return weights.masked_fill((time >= written[:, None])[:, :, None], 0.0)
