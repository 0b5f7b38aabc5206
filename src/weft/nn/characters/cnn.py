"""The vector of a word from its characters: convolutions, the largest value of each filter, highways (Kim et al., 2016, arXiv:1508.06615).

Shapes: N words, C characters, E size of a character's vector, F filters, P projection.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Highway(nn.Module):
    """g * relu(W x + b) + (1 - g) * x, where g is a sigmoid of x (Srivastava et al., 2015)."""

    def __init__(self, width: int):
        super().__init__()
        self.transform = nn.Linear(width, width)
        self.gate = nn.Linear(width, width)
        nn.init.constant_(self.gate.bias, -2.0)  # begins by carrying most of x

    def forward(self, x: Tensor) -> Tensor:
        """x (…, F) -> (…, F)."""
        gate = torch.sigmoid(self.gate(x))
        return gate * F.relu(self.transform(x)) + (1 - gate) * x


class CharacterCNN(nn.Module):
    """Characters -> convolutions of several widths -> their maxima -> highways -> a projection."""

    def __init__(self, characters: int, embedding: int, widths: Sequence[int], filters: Sequence[int], highways: int, projection: int):
        super().__init__()
        self.embed = nn.Embedding(characters, embedding)
        self.convolutions = nn.ModuleList(nn.Conv1d(embedding, number, width) for width, number in zip(widths, filters, strict=True))
        self.highways = nn.ModuleList(Highway(sum(filters)) for _ in range(highways))
        self.projection = nn.Linear(sum(filters), projection)
        nn.init.normal_(self.embed.weight, std=embedding**-0.5)

    def forward(self, characters: Tensor) -> Tensor:
        """characters (N, C) -> (N, P)."""
        x = self.embed(characters).mT  # (N, E, C)
        x = F.relu(torch.cat([convolution(x).amax(-1) for convolution in self.convolutions], dim=-1))  # (N, F)
        for highway in self.highways:
            x = highway(x)
        projected: Tensor = self.projection(x)
        return projected
