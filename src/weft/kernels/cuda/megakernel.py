"""One more token of one row of a decoder like GPT-2, as one kernel on a Hopper GPU (`kernels/cuda/megakernel.cu`).

A single row waits for weights only. This kernel fetches them without a pause, where `steps` starts some hundred kernels, each of which
waits for the one before. Its sums are made in another order than those of several rows.
"""

from __future__ import annotations

import ctypes
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor, nn

from weft.kernels.cuda.compiler import is_shared, kernel
from weft.nn.feed_forward import FeedForward
from weft.nn.state import KVCache

HOPPER = 9
KINDS = ["gelu", "gelu_tanh", "relu", "squared_relu", "silu"]
"""Activations in the kernel's order."""
PARTS = 6
"""Most blocks that share a head's cache."""
UNITS = 4
"""Rows of weights that are fetched at once; as many warps read them."""
ALIGNED = 16
"""Bytes that are fetched together; weights begin at a multiple of them."""
Sizes = dict[str, Any]
Slot = tuple[dict[str, Tensor | None], str]
"""A module's table of weights, and a name there."""


class Arguments(ctypes.Structure):
    """As the kernel's `Args` has them."""

    NAMES = ("pointers", "id", "length", "set", "shares", "mail", "keys", "values", "layer_stride", "head_stride", "logits")
    _fields_ = [(name, ctypes.c_uint64) for name in NAMES]


def shares(total: int, wanted: list[float]) -> list[int]:
    """Where each block's units begin, and the end: as near to what is wanted of each as whole numbers allow."""
    scale = total / sum(wanted)
    return [0, *(round(end * scale) for end in accumulate(wanted))]


def all_shares(width: int, factor: int, vocabulary: int, blocks: int) -> list[list[int]]:
    """Of q, k and v, of rows of the residual stream, of the up projection and of the head; a block with a row more has less of the
    rest."""
    alike = [1.0] * blocks
    rows = shares(width, alike)
    level = (4 + 2 * factor) * width / blocks
    left = [max(level - (1 + factor) * (end - begin), 1e-3) for begin, end in pairwise(rows)]
    return [shares(3 * width, left), rows, shares(factor * width, left), shares(vocabulary, alike)]


def largest(shares: list[int]) -> int:
    return max(end - begin for begin, end in pairwise(shares))


def products_of(block: Any) -> list[Any]:
    return [block.attention.qkv, block.attention.out, block.feedforward.up, block.feedforward.down]


def slots_of(model: Any) -> list[Slot]:
    """Where a model keeps its weights, in the kernel's order."""
    layers = [layer for block in model.blocks for layer in (*products_of(block), block.norm1, block.norm2)]
    found = [(layer._parameters, name) for layer in layers for name in ("weight", "bias")]
    last = [(model.embed, "weight"), (model.position, "weight"), (model.norm, "weight"), (model.norm, "bias"), (model.head, "weight")]
    return found + [(layer._parameters, name) for layer, name in last]


def addresses(slots: list[Slot]) -> list[int]:
    return [0 if (tensor := table[name]) is None else tensor.data_ptr() for table, name in slots]


def is_like_gpt2(model: Any) -> bool:
    """Whether a stack of blocks has learned positions, norms before its branches, heads with keys of their own, and bfloat16 weights."""
    blocks = list(model.blocks)
    layers = [model.head, *(layer for block in blocks for layer in products_of(block))]
    norms = [model.norm, *(norm for block in blocks for norm in (block.norm1, block.norm2))]
    return (
        isinstance(getattr(model, "position", None), nn.Embedding)
        and not getattr(model.config, "norm_embedding", False)
        and not any(getattr(model, "windows", ()))
        and all(block.order == "pre" and type(block.feedforward) is FeedForward for block in blocks)
        and len({(block.attention.heads, block.feedforward.activation) for block in blocks}) == 1
        and all(type(layer) is nn.Linear for layer in layers)
        and all(isinstance(norm, nn.LayerNorm) and norm.elementwise_affine and norm.eps == model.norm.eps for norm in norms)
        and has_weights(model)
    )


def has_weights(model: Any) -> bool:
    """Whether its weights are where and as the kernel reads them."""
    wide, inner = model.config.width, model.blocks[0].feedforward.down.in_features
    shapes = [(3 * wide, wide), (wide, wide), (inner, wide), (wide, inner)]
    held = [table[name] for table, name in slots_of(model)]
    return (
        all([layer.weight.shape for layer in products_of(block)] == shapes for block in model.blocks)
        and model.head.bias is None
        and all(t is None or (t.dtype == torch.bfloat16 and t.is_contiguous() and t.data_ptr() % ALIGNED == 0) for t in held)
        and len({t.device for t in held if t is not None}) == 1
    )


def sizes_of(model: Any, blocks: int, shared: int) -> Sizes:
    """What the kernel is compiled for, with so many blocks and bytes of shared memory."""
    width, heads, feed = model.config.width, model.blocks[0].attention.heads, model.blocks[0].feedforward
    factor = feed.down.in_features // width
    parts = max(1, min(blocks // heads, PARTS))
    mail = (5 + factor + parts) * width + 2 * heads * parts
    qkv, rows, up, _ = all_shares(width, factor, model.head.out_features, blocks)
    batch = max(largest(qkv), largest(rows) * factor, largest(up))
    return {
        "LAYERS": len(model.blocks), "D": width, "HEADS": heads, "F": factor, "EPS": model.norm.eps, "KIND": KINDS.index(feed.activation),
        "BLOCKS": blocks, "BYTES": shared, "PARTS": parts, "MAIL": -(-mail // 8) * 8, "BATCH": -(-batch // UNITS) * UNITS,
        "WARPS": 12 if width <= 1024 else 8, "UNITS": UNITS,
    }  # fmt: skip


def sizes_fit(model: Any, blocks: int, shared: int) -> bool:
    """Whether the kernel can divide a model like GPT-2 among so many blocks."""
    width, heads, inner = model.config.width, model.blocks[0].attention.heads, model.blocks[0].feedforward.down.in_features
    if width % heads or width // heads not in (8, 16, 32, 64, 128, 256) or inner not in (width, 2 * width, 4 * width) or heads > blocks:
        return False
    sizes = sizes_of(model, blocks, shared)
    return bool(max(width // 8, sizes["BATCH"]) <= 32 * sizes["WARPS"])


def room_of(device: torch.device) -> tuple[int, int]:
    """Blocks that run at once on a GPU, and bytes of shared memory of each."""
    gpu: Any = torch.cuda.get_device_properties(device)
    return gpu.multi_processor_count, gpu.shared_memory_per_block_optin


def runs_on(device: torch.device) -> bool:
    """Whether a device is a Hopper GPU that a process has to itself: the kernel's blocks wait for one another, so all must run at once."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device)[0] == HOPPER and not is_shared(device)


def fits(model: Any) -> bool:
    """Whether the kernel serves a stack of blocks where it is."""
    device = next(model.parameters()).device
    return runs_on(device) and is_like_gpt2(model) and sizes_fit(model, *room_of(device))


class Megakernel:
    """The same call as `steps.DecodeStep` has, for one row of a model that fits."""

    def __init__(self, model: Any):
        device = next(model.parameters()).device
        self.blocks, shared = room_of(device)
        sizes = sizes_of(model, self.blocks, shared)
        self.slots = slots_of(model)
        self.addresses = addresses(self.slots)
        self.pointers = torch.tensor(self.addresses, device=device)
        of_blocks = all_shares(sizes["D"], sizes["F"], model.head.out_features, self.blocks)
        self.shares = torch.tensor(of_blocks, dtype=torch.int32, device=device)
        self.mail = torch.full((2, sizes["LAYERS"], sizes["MAIL"]), -1, dtype=torch.int16, device=device)  # nothing has come yet
        self.logits = torch.zeros(1, model.head.out_features, dtype=torch.bfloat16, device=device)
        self.set, self.following = 0, 0
        self.kernel = kernel("megakernel", tuple(sizes.items()), device, 32 * sizes["WARPS"] + 32, shared)
        tensors = {"pointers": self.pointers, "shares": self.shares, "mail": self.mail, "logits": self.logits}
        self.arguments = Arguments(**{name: tensor.data_ptr() for name, tensor in tensors.items()})

    def is_current(self, cache: KVCache) -> bool:
        """Whether all weights are where they were. Within a text, a cache of which knows the old ones alone, a look at the last will do."""
        looked_at = 1 if cache.lengths[0] == self.following else len(self.slots)
        return addresses(self.slots[-looked_at:]) == self.addresses[-looked_at:]

    def __call__(self, ids: Tensor, cache: KVCache) -> Tensor:
        """The last token of the row (1,), read and counted -> logits (1, V), which the next call overwrites."""
        length, given = cache.lengths[0], self.arguments
        cache.make_room(1, length + 1)
        ids = ids.to(self.pointers)
        to_values, given.layer_stride, _, given.head_stride, *_ = cache.parts.stride()
        given.keys = cache.parts.data_ptr()
        given.values = given.keys + to_values * cache.parts.element_size()
        given.id, given.length, given.set = ids.data_ptr(), length, self.set
        self.kernel(given, self.blocks)
        self.set, self.following = 1 - self.set, length + 1
        cache.count([1])
        return self.logits
