"""The feed-forward network of a Transformer block, plain and gated.

Shapes: B batch, T time, D width.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

Activation = Literal["gelu", "gelu_tanh", "relu", "squared_relu", "silu"]


def squared_relu(x: Tensor) -> Tensor:
    """max(x, 0)² (So et al., 2021, arXiv:2109.08668)."""
    return F.relu(x).square()


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
    "squared_relu": squared_relu,
    "silu": F.silu,
}


class FeedForward(nn.Module):
    """D -> inner -> D at every position."""

    def __init__(self, width: int, ffn_width: int, *, activation: Activation = "gelu", bias: bool = True):
        super().__init__()
        self.up = nn.Linear(width, ffn_width, bias=bias)
        self.down = nn.Linear(ffn_width, width, bias=bias)
        self.activation = activation

    @property
    def up_proj(self) -> nn.Linear:
        """The up projection."""
        return self.up

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) -> (B, T, D)."""
        out: Tensor = self.down(ACTIVATIONS[self.activation](self.up(x)))
        return out


class GatedFeedForward(nn.Module):
    """The same with a second product that opens or closes each of its inner units (Shazeer, 2020, arXiv:2002.05202)."""

    def __init__(self, width: int, ffn_width: int, *, activation: Activation = "silu", bias: bool = False):
        super().__init__()
        self.gate_up = nn.Linear(width, 2 * ffn_width, bias=bias)
        self.down = nn.Linear(ffn_width, width, bias=bias)
        self.activation = activation

    @property
    def up_proj(self) -> nn.Linear:
        """The up projection."""
        return self.gate_up

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) -> (B, T, D)."""
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        out: Tensor = self.down(ACTIVATIONS[self.activation](gate) * up)
        return out
