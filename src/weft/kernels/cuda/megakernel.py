"""One more token of one row of a decoder like GPT-2, as one kernel on a Hopper GPU (`kernels/cuda/megakernel.cu`).

A single row waits for weights only. This kernel fetches them without a pause, where `decode_step` starts some hundred kernels, each of
which waits for the one before. Its sums are made in another order than those of several rows.
"""

from __future__ import annotations

import ctypes
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor

from weft.kernels.cuda.compiler import is_shared, kernel
from weft.kernels.describe import decoding, describe_stack
from weft.kernels.implementation import Implementation
from weft.kernels.known import described
from weft.kernels.spec import StackSpec
from weft.kernels.usage import UsageSpec
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


def linears_of(block: Any) -> list[Any]:
    return [block.attention.qkv, block.attention.out, block.feedforward.up, block.feedforward.down]


def slots_of(model: Any) -> list[Slot]:
    """Where a model keeps its weights, in the kernel's order."""
    layers = [layer for block in model.blocks for layer in (*linears_of(block), block.norm1, block.norm2)]
    found = [(layer._parameters, name) for layer in layers for name in ("weight", "bias")]
    last = [(model.embed, "weight"), (model.position, "weight"), (model.norm, "weight"), (model.norm, "bias"), (model.head, "weight")]
    return found + [(layer._parameters, name) for layer, name in last]


def addresses(slots: list[Slot]) -> list[int]:
    return [0 if (tensor := table[name]) is None else tensor.data_ptr() for table, name in slots]


def sizes_of(spec: StackSpec, blocks: int, shared: int) -> Sizes:
    """What the kernel is compiled for, with so many blocks and bytes of shared memory."""
    first, width = spec.blocks[0], spec.width
    heads, factor = first.attention.heads, first.ffn_width // width
    parts = max(1, min(blocks // heads, PARTS))
    mail = (5 + factor + parts) * width + 2 * heads * parts
    qkv, rows, up, _ = all_shares(width, factor, spec.vocabulary, blocks)
    batch = max(largest(qkv), largest(rows) * factor, largest(up))
    return {
        "LAYERS": len(spec.blocks), "D": width, "HEADS": heads, "F": factor, "EPS": spec.eps, "KIND": KINDS.index(first.activation),
        "BLOCKS": blocks, "BYTES": shared, "PARTS": parts, "MAIL": -(-mail // 8) * 8, "BATCH": -(-batch // UNITS) * UNITS,
        "WARPS": 12 if width <= 1024 else 8, "UNITS": UNITS,
    }  # fmt: skip


def sizes_fit(spec: StackSpec, blocks: int, shared: int) -> bool:
    """Whether the kernel can divide a model like GPT-2 among so many blocks."""
    width, heads, ffn_width = spec.width, spec.blocks[0].attention.heads, spec.blocks[0].ffn_width
    if width % heads or width // heads not in (8, 16, 32, 64, 128, 256) or ffn_width not in (width, 2 * width, 4 * width) or heads > blocks:
        return False
    sizes = sizes_of(spec, blocks, shared)
    return bool(max(width // 8, sizes["BATCH"]) <= 32 * sizes["WARPS"])


def runs_on(device: torch.device) -> bool:
    """Whether a device is a Hopper GPU that a process has to itself: the kernel's blocks wait for one another, so all must run at once."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device)[0] == HOPPER and not is_shared(device)


class MegakernelDecode(Implementation):
    name, file, slot, where = "megakernel", "kernels/cuda/megakernel.py", "", "for one row at a time"

    def refuses(self, spec: StackSpec, use: UsageSpec) -> str:
        """But for whether other processes use the GPU, which may change (`runs_on`)."""
        blocks, machine = spec.blocks, use.machine
        first = blocks[0]
        eps = {spec.eps, *(eps for block in blocks for eps in block.eps)}
        reasons = {
            "it is for a GPU": machine.device != "cuda",
            "it is for a Hopper GPU": not machine.hopper,
            "it is for decoding": use.mode != "decode",
            f"positions are {spec.positions}": spec.positions != "learned",
            "embeddings are normalised": spec.embedding_norm,
            "blocks have embedding skips": spec.skips,
            "a block has a window": any(block.window for block in blocks),
            "it is post-norm": any(block.order != "pre" for block in blocks),
            "a feed-forward layer is gated": any(block.gated for block in blocks),
            "attention is not causal": not all(block.attention.causal for block in blocks),
            "it uses grouped-query attention": any(block.attention.kv_heads != block.attention.heads for block in blocks),
            "it uses QK-norm": any(block.attention.qk_norm for block in blocks),
            "the blocks differ": len({(block.attention.heads, block.ffn_width, block.activation) for block in blocks}) != 1,
            f"the activation is {first.activation}": first.activation not in KINDS,
            "linear layers are of 8 bits": spec.head != "linear" or any(block.linear != "linear" for block in blocks),
            "norms are of another kind": spec.norm != "layer" or any(block.norm != "layer" for block in blocks),
            "norms have no scale": not {spec.norm_weights, *(block.norm_weights for block in blocks)} <= {"all", "scales"},
            "norms differ in what they add to the variance": len(eps) != 1,
            "the head has a bias": spec.head_bias,
            "weights are not in bf16": spec.dtypes != {"bfloat16"},
            "weights do not lie as the kernel fetches them": not spec.contiguous or spec.alignment < ALIGNED,
            "weights are not tensors of one device": spec.devices != 1 or not spec.plain_tensors,
        }
        if why := next((why for why, holds in reasons.items() if holds), ""):
            return why
        return "" if sizes_fit(spec, machine.processors, machine.shared_memory) else "its sizes cannot be divided among processors"

    def install(self, module: Any, use: UsageSpec) -> None: ...


def supports(model: Any) -> bool:
    """Whether the kernel serves a decoder where it is, now."""
    spec = described(describe_stack, model, use := decoding(model))
    return isinstance(spec, StackSpec) and not MegakernelDecode().refuses(spec, use) and runs_on(next(model.parameters()).device)


class Megakernel:
    """The same call as `decode_step.DecodeStep` has, for one row of a model that fits."""

    def __init__(self, model: Any):
        device, use = next(model.parameters()).device, decoding(model)
        self.blocks, shared = use.machine.processors, use.machine.shared_memory
        sizes = sizes_of(describe_stack(model, use), self.blocks, shared)
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
        cache.reserve(1, length + 1)
        ids = ids.to(self.pointers)
        to_values, given.layer_stride, _, given.head_stride, *_ = cache.kv.stride()
        given.keys = cache.kv.data_ptr()
        given.values = given.keys + to_values * cache.kv.element_size()
        given.id, given.length, given.set = ids.data_ptr(), length, self.set
        self.kernel(given, self.blocks)
        self.set, self.following = 1 - self.set, length + 1
        cache.count([1])
        return self.logits
