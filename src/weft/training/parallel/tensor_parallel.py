"""Tensor parallelism of Transformer blocks (Shoeybi et al., 2019, arXiv:1909.08053): heads and feed-forward units divided over processes.

What widens (qkv, up) is divided by its outputs and what narrows (out, down) by its inputs, so a branch of the residual needs
one sum over the processes. qkv holds queries, keys and values one after another, a gated up its gate and its value: each process
must get its share of every section, so the rows are put in the order of the processes, and back where the whole is wanted.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from weft.core.errors import ConfigError


def divide(model: nn.Module, mesh: DeviceMesh) -> dict[str, Tensor]:
    """Divide the blocks of a model; for each parameter whose rows were put in another order, that order."""
    blocks: Any = getattr(model, "blocks", ())
    if not blocks or not all(hasattr(b, "attention") and hasattr(b, "feedforward") for b in blocks):
        raise ConfigError(f"--parallel.tensor divides the blocks of Transformers such as GPT or Llama; {type(model).__name__} has none")
    orders: dict[int, Tensor] = {}
    for block in blocks:
        attention, feedforward, count = block.attention, block.feedforward, mesh.size()
        if attention.kv_heads % count or feedforward.down.in_features % count:
            sizes = f"{attention.kv_heads} KV heads and {feedforward.down.in_features} feed-forward units"
            raise ConfigError(f"--parallel.tensor {count} must divide {sizes}")
        ffn_width = feedforward.down.in_features
        sections = [part * attention.head_dim for part in (attention.heads, attention.kv_heads, attention.kv_heads)]
        widening = {attention.qkv: sections, feedforward.up_proj: [ffn_width] * (feedforward.up_proj.out_features // ffn_width)}
        for layer, sizes_ in widening.items():
            reorder(layer, order := interleaved(sizes_, count))
            parallelize_module(layer, mesh, ColwiseParallel())
            orders |= {id(parameter): order for parameter in layer.parameters()}
        for layer in (attention.out, feedforward.down):
            parallelize_module(layer, mesh, RowwiseParallel())
        attention.heads, attention.kv_heads = attention.heads // count, attention.kv_heads // count
    return {name: orders[id(parameter)] for name, parameter in model.named_parameters() if id(parameter) in orders}


def interleaved(sections: list[int], count: int) -> Tensor:
    """The rows of sections that follow one another, in the order: first process's share of each section, second's, …"""
    rows = torch.split(torch.arange(sum(sections)), sections)
    return torch.cat([section.chunk(count)[process] for process in range(count) for section in rows])


@torch.no_grad()
def reorder(layer: nn.Module, order: Tensor) -> None:
    for parameter in layer.parameters():
        parameter.copy_(parameter[order.to(parameter.device)])
