"""Dropout (Srivastava et al., 2014), inverted: what is kept is scaled so that the mean stays.

In a compiled step on a GPU the mask is a cheap hash of (seed, position) instead of ten rounds of Philox, which would cost
more than all else the fused kernel does.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def kept(shape: torch.Size, seed: Tensor, share: float) -> Tensor:
    """True with probability `share`, as a pure function of the seed (1,) int32 and the position."""
    x = torch.arange(shape.numel(), dtype=torch.int32, device=seed.device).view(shape)
    x = (x ^ seed) * -1640531535  # 0x9E3779B1
    x = (x ^ ((x >> 16) & 0xFFFF)) * -2048144789  # 0x85EBCA6B
    x = (x ^ ((x >> 13) & 0x7FFFF)) * -1028477387  # 0xC2B2AE35
    return (x >> 8) < int((share - 0.5) * 2**24)


class Dropout(nn.Module):
    """Zeroes a share of the elements in training; the identity in evaluation."""

    def __init__(self, share: float):
        super().__init__()
        self.share = share

    def forward(self, x: Tensor) -> Tensor:
        """x of any shape -> the same shape."""
        if not self.training or not self.share:
            return x
        if x.is_cuda and torch.compiler.is_compiling():
            seed = torch.randint(-(2**31), 2**31 - 1, (1,), dtype=torch.int32, device=x.device)
            return torch.where(kept(x.shape, seed, 1 - self.share), x * (1 / (1 - self.share)), 0.0)
        return F.dropout(x, self.share)


class DropPath(Dropout):
    """The same of whole examples: a residual branch is left out for a share of them (stochastic depth: Huang et al., 2016,
    arXiv:1603.09382)."""

    def forward(self, x: Tensor) -> Tensor:
        """x (B, ...) -> (B, ...)."""
        if not self.training or not self.share:
            return x
        return x * super().forward(x.new_ones(len(x), *(1,) * (x.ndim - 1)))
