"""Norms that PyTorch's own do not serve."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn


class RMSNorm(nn.RMSNorm):
    """x over its root mean square, times a learned scale (Zhang & Sennrich, 2019, arXiv:1910.07467)."""

    def forward(self, x: Tensor) -> Tensor:
        """x (..., D) -> (..., D)."""
        # PyTorch's fused kernel wants a scale of the type of x, which autocast does not see to; it sums in fp32 all the same
        return F.rms_norm(x, self.normalized_shape, None if self.weight is None else self.weight.to(x.dtype), self.eps)
