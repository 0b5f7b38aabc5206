"""A weighted mean of layers, the weights learned with the task (Peters et al., 2018, arXiv:1802.05365, equation 1)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class ScalarMix(nn.Module):
    """gamma * sum over layers j of s_j h_j, where s is the softmax of one number a layer."""

    def __init__(self, layers: int):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(layers))
        self.gamma = nn.Parameter(torch.ones(()))

    def forward(self, layers: Sequence[Tensor]) -> Tensor:
        """As many tensors (…, D) as there are layers -> (…, D)."""
        shares = self.weight.softmax(0)
        mixed: Tensor = self.gamma * sum(share * layer for share, layer in zip(shares, layers, strict=True))
        return mixed
