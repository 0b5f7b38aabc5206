"""What the kernel of one_row.cu needs of a model: sizes, pointers, each block's share of the weights, room for mail."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor

KINDS = ["gelu", "gelu_tanh", "relu", "squared_relu", "silu"]
PARTS = 6
"""Most blocks that share a head's cache."""
ALL, STREAM, MAIL = 0, 1, 2
"""What of a step is done: all of it, the fetching of weights alone, or all but that."""
TICKS = 24
WAITS = ["x", "queries", "mixes", "x after attention", "risen", "a stage", "room in the ring", "stages on their way"]


@dataclass(frozen=True)
class Shape:
    """How a block works."""

    warps: int = 8
    units: int = 4
    """Rows of weights in a stage of the ring; as many warps are a team."""
    flight: int = 0
    """Most stages that are on their way; 0: as many as the ring has."""
    pause: int = 0
    """Nanoseconds between two looks at mail."""

    def __str__(self) -> str:
        more = [f"{name} {value}" for name, value in (("flight", self.flight), ("pause", self.pause)) if value]
        return ", ".join([f"{self.warps} warps", f"{self.units} units", *more])


class Arguments(ctypes.Structure):
    """As the kernel's `Args` has them."""

    TENSORS = ("pointers", "id", "place", "steps", "shares", "mail", "keys", "values")
    REST = ("layer_stride", "head_stride", "logits", "notes", "ticks")
    _fields_ = [(name, ctypes.c_uint64) for name in TENSORS + REST]


def shares(total: int, wanted: list[float]) -> list[int]:
    """Where each block's units begin, and the end: as near to what is wanted of each as whole numbers allow."""
    scale = total / sum(wanted)
    return [0, *(round(end * scale) for end in accumulate(wanted))]


def all_shares(width: int, factor: int, vocabulary: int, blocks: int) -> list[list[int]]:
    """Of q, k and v, of rows of the residual stream, of the rise and of the head; who has a row more than others has less of the rest."""
    alike = [1.0] * blocks
    rows = shares(width, alike)
    level = (4 + 2 * factor) * width / blocks
    left = [max(level - (1 + factor) * (end - begin), 1e-3) for begin, end in pairwise(rows)]
    return [shares(3 * width, left), rows, shares(factor * width, left), shares(vocabulary, alike)]


def largest(shares: list[int], units: int = 1) -> int:
    return units * max(end - begin for begin, end in pairwise(shares))


def weights_of(model: Any) -> list[Tensor | None]:
    """In the order in which the kernel knows them."""
    found: list[Tensor | None] = []
    for block in model.blocks:
        attention, feed = block.attention, block.feedforward
        for layer in (attention.qkv, attention.out, feed.rise, feed.fall, block.norm1, block.norm2):
            found += [layer.weight, layer.bias]
    return [*found, model.embed.weight, model.position.weight, model.norm.weight, model.norm.bias, model.head.weight]


class Plan:
    """A shape of the kernel for a GPT-2 in bfloat16 and a cache of one row (2, L, 1, G, S + 1, K)."""

    def __init__(self, model: Any, shape: Shape, blocks: int, shared: int, mode: int = ALL):
        config, feed = model.config, model.blocks[0].feedforward
        factor = feed.fall.in_features // config.width
        parts = max(1, min(blocks // config.heads, PARTS))
        mail = (5 + factor + parts) * config.width + 2 * config.heads * parts
        self.model, self.blocks, self.shape, self.shared = model, blocks, shape, shared
        self.threads = 32 * shape.warps + 32
        self.shares = all_shares(config.width, factor, config.vocabulary, blocks)
        qkv, rows, rise, _ = self.shares
        batch = max(largest(qkv), largest(rows, factor), largest(rise))
        self.defines = {
            "LAYERS": config.layers, "D": config.width, "HEADS": config.heads, "F": factor, "VOCABULARY": config.vocabulary,
            "EPS": model.norm.eps, "KIND": KINDS.index(feed.activation), "BLOCKS": blocks, "BYTES": shared, "PARTS": parts,
            "MAIL": -(-mail // 8) * 8, "BATCH": -(-batch // shape.units) * shape.units, "WARPS": shape.warps, "UNITS": shape.units,
            "MOST_FLIGHT": shape.flight, "PAUSE": shape.pause, "MODE": mode,
        }  # fmt: skip

    def prepare(self, cache: Tensor, notes: Tensor) -> None:
        """Room for a step's mail, counters and logits; `notes`, in the host's memory, say where a kernel gave up waiting."""
        layers, mail = self.defines["LAYERS"], self.defines["MAIL"]
        whole: dict[str, Any] = {"dtype": torch.int64, "device": cache.device}
        halves: dict[str, Any] = {"dtype": torch.int32, "device": cache.device}
        self.cache, self.notes = cache, notes
        self.pointers = torch.tensor([0 if t is None else t.data_ptr() for t in weights_of(self.model)], **whole)
        self.id, self.place, self.ticks = torch.zeros(1, **whole), torch.zeros(1, **whole), torch.zeros(self.blocks, TICKS, **whole)
        self.steps, self.share_table = torch.zeros(1, **halves), torch.tensor(self.shares, **halves)
        self.mail = torch.full((layers * mail,), -1, **halves)  # two sets of half words, all absent
        self.logits = torch.zeros(self.defines["VOCABULARY"], dtype=torch.bfloat16, device=cache.device)
        keys, values = cache
        tensors = {
            "pointers": self.pointers, "id": self.id, "place": self.place, "steps": self.steps, "shares": self.share_table,
            "mail": self.mail, "keys": keys, "values": values, "logits": self.logits, "notes": notes,
        }  # fmt: skip
        addresses = {name: tensor.data_ptr() for name, tensor in tensors.items()}
        self.arguments = Arguments(**addresses, layer_stride=keys.stride(0), head_stride=keys.stride(2), ticks=0)
