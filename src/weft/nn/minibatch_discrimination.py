"""Minibatch discrimination (Salimans et al., 2016, arXiv:1606.03498): each example is told how close it lies to the others of its batch.

M_i = f(x_i) T with a tensor T of A by B by C, so M_ibc = sum over a of f_a(x_i) T_abc, and
o(x_i)_b = sum over j of exp(-sum over c of |M_ibc - M_jbc|). A generator that always draws the same gives itself away.
Shapes: N batch, A features, K kernels (B above), C size of a kernel.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class MinibatchDiscrimination(nn.Module):
    def __init__(self, features: int, kernels: int, size: int = 5):
        super().__init__()
        self.shape = (kernels, size)
        self.weight = nn.Parameter(torch.randn(features, kernels * size) * features**-0.5)

    def forward(self, features: Tensor) -> Tensor:
        """features (N, A) -> features and closeness (N, A + K); an example's distance to itself is left out."""
        m = (features @ self.weight).float().view(-1, *self.shape)  # (N, K, C)
        distance = (m[:, None] - m[None]).abs().sum(-1)  # (N, N, K)
        closeness = (-distance).exp().sum(1) - 1.0
        return torch.cat([features, closeness.to(features.dtype)], dim=1)
