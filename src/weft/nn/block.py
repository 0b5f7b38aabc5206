"""The Transformer block: attention and a two-layer network, each with a residual and a norm before or after."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.kernels import gpt_block_cuda
from weft.kernels.c import gpt_block_cpu
from weft.nn.attention import SelfAttention
from weft.nn.checkpointed import Kept, keeping
from weft.nn.dropout import BranchDropout, Dropout
from weft.nn.state import Store

FUSED: ModuleType | None = None
"""The kernels for narrow blocks in training, where there is a GPU and Triton."""
if torch.cuda.is_available() and importlib.util.find_spec("triton"):
    from weft.kernels.triton import narrow_block as FUSED

Order = Literal["pre", "post"]
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

    def __init__(self, width: int, inner: int, *, activation: Activation = "gelu", bias: bool = True):
        super().__init__()
        self.rise = nn.Linear(width, inner, bias=bias)
        self.fall = nn.Linear(inner, width, bias=bias)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) -> (B, T, D)."""
        out: Tensor = self.fall(ACTIVATIONS[self.activation](self.rise(x)))
        return out


class GatedFeedForward(nn.Module):
    """The same with a second product that opens or closes each of its inner units (Shazeer, 2020, arXiv:2002.05202)."""

    def __init__(self, width: int, inner: int, *, activation: Activation = "silu", bias: bool = False):
        super().__init__()
        self.rise = nn.Linear(width, 2 * inner, bias=bias)
        self.fall = nn.Linear(inner, width, bias=bias)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) -> (B, T, D)."""
        gate, up = self.rise(x).chunk(2, dim=-1)
        out: Tensor = self.fall(ACTIVATIONS[self.activation](gate) * up)
        return out


class Block(nn.Module):
    """x + attention, x + feed-forward; norm first ("pre", GPT-2) or last ("post", 2017 and BERT)."""

    blocks_backend = "plain"
    """"fused" where the trainer chooses kernels of our own."""
    activations_backend: Kept = "all"
    """What is kept for the backward pass: the trainer chooses by memory."""

    def __init__(
        self,
        attention: SelfAttention,
        feedforward: nn.Module,
        norm: Callable[[], nn.Module],
        *,
        order: Order = "pre",
        dropout: float = 0.0,
        skipped: float = 0.0,
    ):
        super().__init__()
        self.order, self.dropout, self.skipped = order, Dropout(dropout), BranchDropout(skipped)
        self.attention, self.feedforward = attention, feedforward
        self.norm1, self.norm2 = norm(), norm()

    def forward(self, x: Tensor, mask: Any = None, rotary: Tensor | None = None, store: Store | None = None) -> Tensor:
        """x (B, T, D) -> (B, T, D)."""
        chosen = self.training and self.blocks_backend == "fused" and store is None
        if chosen and FUSED and gpt_block_cuda.fits(self, x):
            kept: Kept = "inputs" if self.activations_backend == "inputs" else "all"  # it sees to "products" itself
            return keeping(kept, gpt_block_cuda.wide_block, self, x, mask, rotary)
        if chosen and self.activations_backend == "all" and gpt_block_cpu.fits(self, x, mask, rotary):
            return gpt_block_cpu.cpu_block(self, x, rotary)
        return keeping(self.activations_backend, self.compute, x, mask, rotary, store)

    def compute(self, x: Tensor, mask: Tensor | None, rotary: Tensor | None, store: Store | None) -> Tensor:
        if self.order == "pre":
            x = x + self.skipped(self.dropout(self.attention(self.norm1(x), mask, rotary, store)))
            x = x + self.skipped(self.dropout(self.feedforward(self.norm2(x))))
        else:
            x = self.norm1(x + self.skipped(self.dropout(self.attention(x, mask, rotary, store))))
            x = self.norm2(x + self.skipped(self.dropout(self.feedforward(x))))
        return x


def together(blocks: nn.ModuleList, x: Tensor) -> Tensor | None:
    """x (B, T, D) -> (B, T, D), through all blocks as one operation, where the trainer chose that and the kernels serve them."""
    chosen = all(block.training and block.blocks_backend == "fused" and block.activations_backend == "all" for block in blocks)
    return FUSED.fused_blocks(blocks, x) if FUSED and chosen and FUSED.fit(blocks, x) else None
