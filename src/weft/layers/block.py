"""The Transformer block: attention and a two-layer network, each with a residual and a norm before or after."""

from __future__ import annotations

from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from weft.layers.attention import SelfAttention

Activation = Literal["gelu", "gelu_tanh", "relu"]


class FeedForward(nn.Module):
    """D -> inner -> D at every position."""

    def __init__(self, width: int, inner: int, *, activation: Activation = "gelu", bias: bool = True):
        super().__init__()
        self.rise = nn.Linear(width, inner, bias=bias)
        self.fall = nn.Linear(inner, width, bias=bias)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) -> (B, T, D)."""
        x = self.rise(x)
        if self.activation == "relu":
            x = F.relu(x)
        else:
            x = F.gelu(x, approximate="tanh" if self.activation == "gelu_tanh" else "none")
        out: Tensor = self.fall(x)
        return out


class Block(nn.Module):
    """x + attention, x + feed-forward; norm first ("pre", GPT-2) or last ("post", 2017 and BERT)."""

    def __init__(
        self, attention: SelfAttention, feedforward: FeedForward, width: int, *, norm: Literal["pre", "post"], dropout: float, bias: bool = True
    ):
        super().__init__()
        self.norm, self.dropout = norm, nn.Dropout(dropout)
        self.attention, self.feedforward = attention, feedforward
        self.norm1, self.norm2 = nn.LayerNorm(width, bias=bias), nn.LayerNorm(width, bias=bias)

    def forward(self, x: Tensor, mask: Tensor | None = None, rotary: Tensor | None = None) -> Tensor:
        """x (B, T, D) -> (B, T, D)."""
        if self.norm == "pre":
            x = x + self.dropout(self.attention(self.norm1(x), mask, rotary))
            return x + self.dropout(self.feedforward(self.norm2(x)))
        x = self.norm1(x + self.dropout(self.attention(x, mask, rotary)))
        out: Tensor = self.norm2(x + self.dropout(self.feedforward(x)))
        return out
