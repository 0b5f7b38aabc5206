"""The Transformer block: attention and a two-layer network, each with a residual and a norm before or after."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.layers.attention import SelfAttention
from weft.layers.dropout import Dropout

KERNELS = torch.cuda.is_available() and importlib.util.find_spec("triton") is not None
"""Whether bias and GELU, and residual sum and norm, are one kernel each in a bf16 step."""
if KERNELS:
    from weft.layers.fused_gelu import biased_gelu
    from weft.layers.residual_norm import LIMIT, residual_norm

Activation = Literal["gelu", "gelu_tanh", "relu"]
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"gelu": F.gelu, "gelu_tanh": partial(F.gelu, approximate="tanh"), "relu": F.relu}


def served(x: Tensor) -> bool:
    """Whether the kernels take what a product with x gives."""
    return KERNELS and x.is_cuda and torch.is_autocast_enabled("cuda") and torch.get_autocast_dtype("cuda") == torch.bfloat16


class FeedForward(nn.Module):
    """D -> inner -> D at every position."""

    def __init__(self, width: int, inner: int, *, activation: Activation = "gelu", bias: bool = True):
        super().__init__()
        self.rise = nn.Linear(width, inner, bias=bias)
        self.fall = nn.Linear(inner, width, bias=bias)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) -> (B, T, D)."""
        out: Tensor = self.fall(self.activate(x))
        return out

    def activate(self, x: Tensor) -> Tensor:
        """All but the last layer: (B, T, inner)."""
        if self.activation == "gelu" and served(x):
            out: Tensor = biased_gelu(F.linear(x, self.rise.weight), self.rise.bias)
            return out
        return ACTIVATIONS[self.activation](self.rise(x))


class Block(nn.Module):
    """x + attention, x + feed-forward; norm first ("pre", GPT-2) or last ("post", 2017 and BERT)."""

    def __init__(
        self,
        attention: SelfAttention,
        feedforward: FeedForward,
        width: int,
        *,
        norm: Literal["pre", "post"],
        dropout: float,
        bias: bool = True,
    ):
        super().__init__()
        self.norm, self.dropout = norm, Dropout(dropout)
        self.attention, self.feedforward = attention, feedforward
        self.norm1, self.norm2 = nn.LayerNorm(width, bias=bias), nn.LayerNorm(width, bias=bias)

    def forward(self, x: Tensor, mask: Tensor | None = None, rotary: Tensor | None = None) -> Tensor:
        """x (B, T, D) -> (B, T, D)."""
        if self.norm == "pre":
            x = x + self.dropout(self.attention(self.norm1(x), mask, rotary))
            x = x + self.dropout(self.feedforward(self.norm2(x)))
        else:
            x = self.norm1(x + self.dropout(self.attention(x, mask, rotary)))
            x = self.norm2(x + self.dropout(self.feedforward(x)))
        return x

    def fused(
        self, x: Tensor, normed: Tensor, following: nn.LayerNorm, seeds: Tensor, mask: Tensor | None, rotary: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """A "pre" block that is given norm1(x) and gives out the sum with its `following` norm; seeds (2, 1)."""
        x, normed = self._join(x, self.attention.mix(normed, mask, rotary), self.attention.out, self.norm2, seeds[0])
        return self._join(x, self.feedforward.activate(normed), self.feedforward.fall, following, seeds[1])

    def _join(self, x: Tensor, branch: Tensor, last: nn.Linear, norm: nn.LayerNorm, seed: Tensor) -> tuple[Tensor, Tensor]:
        """x + dropout(last(branch)), and its norm."""
        share = self.dropout.share if self.dropout.training else 0.0
        y = F.linear(branch, last.weight)
        total, normed, _ = residual_norm(x, y, last.bias, norm.weight, norm.bias, seed if share else None, share, norm.eps)
        return total, normed


def run_blocks(blocks: nn.ModuleList, x: Tensor, norm: nn.Module, mask: Tensor | None = None, rotary: Tensor | None = None) -> Tensor:
    """x (B, T, D) through all blocks and a last norm -> (B, T, D)."""
    if not (served(x) and x.dtype == torch.bfloat16 and x.size(-1) <= LIMIT and all(block.norm == "pre" for block in blocks)):
        for block in blocks:
            x = block(x, mask, rotary)
        out: Tensor = norm(x)
        return out
    norms: list[nn.LayerNorm] = [block.norm1 for block in blocks] + [norm]  # type: ignore[assignment]
    seeds = torch.randint(0, 2**31, (len(blocks), 2, 1), device=x.device)  # drawn at once: a kernel for each would show
    normed: Tensor = norms[0](x)
    for block, following, pair in zip(blocks, norms[1:], seeds):
        x, normed = block.fused(x, normed, following, pair, mask, rotary)  # type: ignore[operator]
    return normed
