"""Position embeddings: sinusoidal and rotary (RoPE). B batch, T time, H heads, D width, K head width."""

from __future__ import annotations

import torch
from torch import Tensor


def sinusoidal(length: int, width: int) -> Tensor:
    """The fixed table (T, D) of Vaswani et al., 2017: sines in even columns, cosines in odd ones."""
    position = torch.arange(length, dtype=torch.float32).unsqueeze(1)
    rate = 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float32) / width)
    table = torch.zeros(length, width)
    table[:, 0::2] = torch.sin(position * rate)
    table[:, 1::2] = torch.cos(position * rate)[:, : width // 2]
    return table


def rope_table(length: int, width: int, base: float = 10000.0) -> Tensor:
    """Cosines and sines (2, T, K) of rotary positions (Su et al., 2021, arXiv:2104.09864), halves layout."""
    rate = base ** (-torch.arange(0, width, 2, dtype=torch.float32) / width)
    angle = torch.outer(torch.arange(length, dtype=torch.float32), rate)  # (T, K/2)
    angle = torch.cat([angle, angle], dim=-1)
    return torch.stack([angle.cos(), angle.sin()])


def apply_rope(x: Tensor, table: Tensor) -> Tensor:
    """Turn each head vector by its position: x (B, T, ..., H, K), table (2, T, K), or (2, B, T, K) where rows differ."""
    first, second = x.chunk(2, dim=-1)
    turned = torch.cat([-second, first], dim=-1)
    between = (1,) * (x.ndim - 3)
    cos, sin = table.to(x.dtype).view(*table.shape[:-1], *between, x.size(-1))
    out: Tensor = x * cos + turned * sin
    return out
