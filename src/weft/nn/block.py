"""The Transformer block: attention and a two-layer network, each with a residual and a norm before or after."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from types import ModuleType
from typing import Any, Literal

import torch
from torch import Tensor, nn

from weft.kernels import gpt_block_cuda
from weft.kernels.c import gpt_block_cpu
from weft.nn.attention import SelfAttention
from weft.nn.checkpointed import Kept, checkpointed
from weft.nn.dropout import BranchDropout, Dropout
from weft.nn.state import LayerKV

FUSED: ModuleType | None = None
"""The kernels for narrow blocks in training, where there is a GPU and Triton."""
if torch.cuda.is_available() and importlib.util.find_spec("triton"):
    from weft.kernels.triton import narrow_block as FUSED

Order = Literal["pre", "post"]


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

    def forward(self, x: Tensor, mask: Any = None, rotary: Tensor | None = None, store: LayerKV | None = None) -> Tensor:
        """x (B, T, D) -> (B, T, D)."""
        chosen = self.training and self.blocks_backend == "fused" and store is None
        if chosen and FUSED and gpt_block_cuda.fits(self, x):
            kept: Kept = "inputs" if self.activations_backend == "inputs" else "all"  # it sees to "products" itself
            return checkpointed(kept, gpt_block_cuda.gpt_block_cuda, self, x, mask, rotary)
        if chosen and self.activations_backend == "all" and gpt_block_cpu.fits(self, x, mask, rotary):
            return gpt_block_cpu.cpu_block(self, x, rotary)
        return checkpointed(self.activations_backend, self.compute, x, mask, rotary, store)

    def compute(self, x: Tensor, mask: Tensor | None, rotary: Tensor | None, store: LayerKV | None) -> Tensor:
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
