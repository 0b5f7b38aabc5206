"""Narrow blocks on few tokens in training, all of them as one operation (`kernels.triton.narrow_block`). B batch, T time, D width."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from weft.kernels.attention import HEADS, SHORTEST
from weft.kernels.implementation import Implementation, install
from weft.kernels.spec import BlockSpec
from weft.kernels.usage import UsageSpec
from weft.nn.block import Blocks
from weft.nn.state import LayerKV

WIDTHS = (128, 256)


class NarrowBlocks(Implementation):
    name, file, slot, whole = "narrow blocks", "kernels/triton/narrow_block.py", "forward", True
    where = f"in training, all blocks as one operation, for up to {SHORTEST} tokens where no mask is given"

    def refuses(self, spec: tuple[BlockSpec, ...], use: UsageSpec) -> str:
        first = spec[0] if spec else None
        if first is None:
            return "there are no blocks"
        if len(set(spec)) > 1:
            return "the blocks differ"
        attention, width = first.attention, first.attention.width
        reasons = {
            "it is for a GPU": use.machine.device != "cuda",
            "Triton is not installed": not use.machine.triton,
            f"{use.attention} attention is asked for": use.attention_asked,
            "it is for training": use.mode != "train",
            "matmuls are not in bf16": use.precision != "bf16",
            f"activation checkpointing is {use.checkpointing}": use.checkpointing != "none",
            f"a width of {width} is not one of {WIDTHS}": width not in WIDTHS,
            "it is post-norm": first.order != "pre",
            f"drop path {first.drop_path:g} is on": first.drop_path,
            "attention is not causal": not attention.causal,
            "it uses QK-norm": attention.qk_norm,
            "it uses grouped-query attention": attention.kv_heads != attention.heads,
            f"heads are {attention.head_dim} wide": attention.head_dim not in HEADS,
            "positions are rotary": first.positions == "rope",
            f"a window of {first.window} is a mask": first.window,
            "the feed-forward layer is gated": first.gated,
            f"the activation is {first.activation}": first.activation != "gelu",
            f"the norms are of another kind ({first.norm})": first.norm != "layer",
            "the norms add something other than 1e-5 to the variance": first.eps != (1e-5, 1e-5),
            "a bias or a norm's weight is missing": first.norm_weights != "all" or first.bias != "all",
            f"linear layers are {first.linear}": first.linear != "linear",
            "weights are not in fp32": first.dtypes != {"float32"},
            "weights do not lie row after row": not first.contiguous,
            "processes share out the weights": not first.plain_tensors,
            f"a feed-forward width of {first.ffn_width} is no multiple of 256": first.ffn_width % 256,
        }
        return next((why for why, holds in reasons.items() if holds), "")

    def install(self, module: Any, use: UsageSpec) -> None:
        install(module, self, forward)


def forward(
    blocks: Blocks,
    x: Tensor,
    masks: Sequence[Any] | None = None,
    rotary: Tensor | None = None,
    layer_kvs: Sequence[LayerKV] | None = None,
) -> Tensor:
    """`Blocks.forward`."""
    first: Any = blocks[0]
    ffn_width = first.feedforward.up.out_features
    fits = x.is_cuda and x.dtype == torch.bfloat16 and x.size(1) <= SHORTEST
    small = x.numel() // x.size(2) * max(ffn_width, 1024) < 2**31  # positions are counted with 32 bits
    if first.training and masks is None and rotary is None and layer_kvs is None and fits and small:
        from weft.kernels.triton.narrow_block import fused_blocks

        return fused_blocks([*blocks], x)
    return Blocks.forward(blocks, x, masks, rotary, layer_kvs)
