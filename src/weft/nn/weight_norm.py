"""Fully connected layer with weight normalisation (Salimans & Kingma, 2016, arXiv:1602.07868): each row of weights is g v / |v|."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class WeightNormLinear(nn.Module):
    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.direction = nn.Parameter(torch.randn(outputs, inputs) * 0.1)
        self.scale = nn.Parameter(torch.ones(outputs))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, inputs) -> (B, outputs)."""
        length = self.direction.norm(dim=1, keepdim=True)
        return F.linear(x, self.direction * (self.scale[:, None] / length), self.bias)


class Noise(nn.Module):
    """Adds Gaussian noise in training."""

    def __init__(self, deviation: float):
        super().__init__()
        self.deviation = deviation

    def forward(self, x: Tensor) -> Tensor:
        return x + self.deviation * torch.randn_like(x) if self.training and self.deviation else x
