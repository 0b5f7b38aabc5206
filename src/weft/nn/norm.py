"""Norms that PyTorch's own do not serve."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class LayerNorm(nn.LayerNorm):
    """x less its mean over its deviation, times a learned scale, plus a learned shift (Ba et al., 2016, arXiv:1607.06450)."""

    def forward(self, x: Tensor) -> Tensor:
        """x (..., D) -> (..., D)."""
        if x.is_cpu and torch.is_grad_enabled() and x.dtype != self.weight.dtype:
            # on a CPU PyTorch adds up the gradients of scale and shift in the type of x: over 4096 rows of bf16 they were half of the truth
            return F.layer_norm(x.to(self.weight.dtype), self.normalized_shape, self.weight, self.bias, self.eps).to(x.dtype)
        return super().forward(x)


class RMSNorm(nn.RMSNorm):
    """x over its root mean square, times a learned scale (Zhang & Sennrich, 2019, arXiv:1910.07467)."""

    def forward(self, x: Tensor) -> Tensor:
        """x (..., D) -> (..., D)."""
        # PyTorch's fused kernel wants a scale of the type of x, which autocast does not see to; it sums in fp32 all the same
        return F.rms_norm(x, self.normalized_shape, None if self.weight is None else self.weight.to(x.dtype), self.eps)
