"""Virtual batch normalisation (Salimans et al., 2016, arXiv:1606.03498): statistics of a fixed reference batch and of the example itself.

An example comes out the same whatever else is in its batch, which batch normalisation cannot say. The reference batch travels
through the network in front of the examples, so that its statistics are known at every layer.
Shapes: R reference rows, B batch, C channels.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class VirtualBatchNorm(nn.Module):
    def __init__(self, channels: int, reference: int, eps: float = 1e-5):
        super().__init__()
        self.reference, self.eps = reference, eps
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        """x (R + B, C, ...), the reference rows first -> the same, normalised channel by channel."""
        places = list(range(2, x.ndim))
        first, second = (part.mean(places) if places else part for part in (x.float(), x.float().square()))  # each (R + B, C)
        rows = torch.arange(len(x), device=x.device)[:, None]
        own = torch.where(rows < self.reference, 0.0, 1.0 / (self.reference + 1))  # an example counts as one more row of the reference
        mean, square = (own * part + (1 - own) * part[: self.reference].mean(0) for part in (first, second))
        scale = (square - mean.square() + self.eps).rsqrt() * self.weight
        shape = (*mean.shape, *[1] * len(places))
        return x * scale.view(shape) + (self.bias - mean * scale).view(shape)
