"""Dropout of short attention: which weights are kept is a cheap hash, and must still look like independent chance."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

pytestmark = pytest.mark.gpu


def mask(dropout: float, batch: int = 128, heads: int = 8) -> Tensor:
    """What is kept of the weights between late rows and early columns (programs, rows, columns): equal scores, values that name columns."""
    from weft.kernels.triton.short_attention import short_attention

    qkv = torch.zeros(batch, 128, 3, heads, 128, device="cuda", dtype=torch.bfloat16)
    qkv[:, :, 2] = torch.eye(128, device="cuda", dtype=torch.bfloat16)[:, None]
    out, _ = short_attention(qkv, torch.tensor([17], dtype=torch.int32, device="cuda"), dropout)
    return (out.view(batch, 128, heads, 128)[:, 64:, :, :64] > 0).transpose(1, 2).flatten(0, 1)


def greatest_correlation(samples: Tensor) -> float:
    """Between any two of the columns of (N, columns), in units of what chance gives."""
    samples = samples - samples.mean(0)
    together = (samples.T @ samples / len(samples) / samples.var()).fill_diagonal_(0.0)
    return together.abs().max().item() * len(samples) ** 0.5


@pytest.mark.parametrize("dropout", [0.1, 0.5])
def test_columns_rows_and_heads_are_dropped_independently(dropout: float) -> None:
    kept = mask(dropout).float()
    assert abs(kept.mean().item() - (1 - dropout)) < 5 * (dropout * (1 - dropout) / kept.numel()) ** 0.5
    assert greatest_correlation(kept.flatten(0, 1)) < 6.5
    assert greatest_correlation(kept.transpose(1, 2).flatten(0, 1)) < 6.5
    assert greatest_correlation(kept.flatten(1).T.contiguous()[:, :512]) < 6.5
