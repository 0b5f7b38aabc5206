"""How a recurrent layer is divided among the blocks of a Hopper GPU, and what its kernels are told (`recurrent_steps.h`).

Shapes: B rows, T steps, H width, G gates, P the size of a gate where products read it, a multiple of 32.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from weft.kernels.cuda.compiler import kernel
from weft.kernels.usage import Machine
from weft.nn.recurrent import GATES

CELLS = ("rnn", "lstm", "peephole", "coupled", "gru", "cho_gru", "layer_norm")
"""In the kernel's order."""
PIECE, CHUNK, WARPS, AHEAD, UNIT = 32, 32, 8, 4, 8
"""Inputs and rows that are taken together, warps of a block, pieces that a warp fetches at once, and columns of a tile."""
MOST_ROWS = 128
TENSORS = (
    *("products", "weight", "bias", "inner_bias", "peephole", "h0", "c0", "lengths", "before", "inner"),
    *("out", "gates", "c", "more", "h_last", "c_last", "dout", "dh", "dc", "dproducts", "dinner"),
    *("norm", "norm_bias", "norm_c", "bias_c", "raw", "moments", "sums", "dnorm", "flags"),
)


class Arguments(ctypes.Structure):
    """As `Args` of recurrent_steps.h."""

    _fields_ = [(name, ctypes.c_uint64) for name in (*TENSORS, "rows", "steps")]


class Cut(NamedTuple):
    """How a pass of a layer is divided among blocks."""

    cell: str
    width: int
    units: int
    backward: bool

    @property
    def blocks(self) -> int:
        return -(-self.width // self.units)

    @property
    def name(self) -> str:
        """Of its kernel."""
        return "layer_norm_lstm" if self.cell == "layer_norm" else "recurrent"

    def shared(self, rows: int) -> int:
        """Bytes of a block: panels of weights, sums of warps, and states."""
        twice, pieces = self.cell == "cho_gru", -(-self.width // PIECE)
        gates = 2 if twice else GATES[self.cell]
        tiles = -(-self.units * (1 if self.backward else gates) // UNIT)
        panels = tiles * pieces * (gates if self.backward else 1) + twice * -(-self.units // UNIT) * pieces
        held = 8 * (rows + CHUNK * self.units) + 4 * rows * self.units * (GATES[self.cell] + 2) if self.cell == "layer_norm" else 0
        return 512 * panels + 4 * WARPS * CHUNK * UNIT * tiles + 8 * rows * self.units + held

    def defines(self) -> tuple[tuple[str, int], ...]:
        named = {"BACKWARD": int(self.backward), "CELL": CELLS.index(self.cell), "H": self.width, "UNITS": self.units}
        return (*named.items(), ("WARPS", WARPS), ("AHEAD", AHEAD))


def cut(cell: str, width: int, backward: bool, rows: int, machine: Machine) -> Cut | None:
    """Such that all blocks run at once and hold their weights; of tiles filled as far as that goes. None where there is no such one."""
    if not machine.processors:
        return None
    across = 1 if backward else 2 if cell == "cho_gru" else GATES[cell]
    least = max(-(-width // machine.processors), min(width, UNIT))
    tiles = -(-least * across // UNIT)
    for units in dict.fromkeys((UNIT * tiles // across, least)):
        found = Cut(cell, width, min(units, width), backward)
        if found.shared(rows) <= machine.shared_memory:
            return found
    return None


@cache
def machine_of(device: torch.device) -> Machine:
    return Machine.of(device)


def cut_of(cell: str, width: int, backward: bool, rows: int, device: torch.device) -> Cut:
    """Where it is known that there is one."""
    found = cut(cell, width, backward, rows, machine_of(device))
    assert found is not None
    return found


def run(cell: str, backward: bool, shape: torch.Size, tensors: Mapping[str, Tensor | None]) -> None:
    """Start a pass of B rows and T steps; what it writes is among the tensors."""
    held = {name: tensor.contiguous() for name, tensor in tensors.items() if tensor is not None}
    device, rows = held["weight"].device, shape[0]
    found = cut_of(cell, held["weight"].size(1), backward, rows, device)
    flags = torch.zeros(found.blocks, dtype=torch.int32, device=device)
    given = Arguments(**{name: tensor.data_ptr() for name, tensor in held.items()}, flags=flags.data_ptr(), rows=rows, steps=shape[1])
    kernel(found.name, found.defines(), device, 32 * WARPS, found.shared(MOST_ROWS))(given, found.blocks)
