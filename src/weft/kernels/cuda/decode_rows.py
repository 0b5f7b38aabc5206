"""Products and attention of a step in CUDA C++, for bfloat16 on Hopper GPUs (`decode_matmul.cu`, `decode_attention.cu`).

What they read of weights and cache is on its way to shared memory before the kernel before has ended, which Triton's kernels, that serve
elsewhere, cannot say. How a product is divided depends on its shape alone, never on the number of rows, so that a row's sums are made in
one order.
"""

from __future__ import annotations

import ctypes
import logging
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from weft.core.errors import WeftError
from weft.kernels.cuda.compiler import Kernel, kernel

log = logging.getLogger("weft")
HOPPER = 9
KINDS = ["none", "gelu", "gelu_tanh", "relu", "squared_relu", "silu"]
"""Activations in the kernel's order."""
INPUTS = 32
"""That a warp takes at once."""
UNIT = 8
"""Outputs whose weights are fetched at once; a block has some of these units."""
ROWS, MOST_OUTPUTS, LEAST_WARPS, MOST_WARPS, MOST_OWN = 32, 64, 4, 10, 5
"""Of a block: rows, outputs, warps, and times that a warp takes inputs, as many as its registers hold."""
FLIGHT = 2
"""Units on their way at a time: with more, whoever else asks for something waits long."""
SPARE = 10
"""One multiprocessor in so many is left, for blocks of the kernel after to begin on."""
PART = 10_000
"""What a part of the inputs costs, in inputs that a block reads."""
ATTENTION_WARPS, ATTENTION_STAGES, MOST_QUERIES = 2, 3, 8
ALIGNED = 16
ROPE_KINDS = {torch.float32: 1, torch.bfloat16: 2}
"""Kinds of numbers in a RoPE table, as the kernel has them."""
BROKEN: set[torch.device] = set()
"""Devices whose kernels could not be compiled."""


class Cut(NamedTuple):
    """How a product is divided among blocks."""

    outputs: int
    parts: int
    share: int
    warps: int

    @property
    def line(self) -> int:
        """Bytes of a row of weights in shared memory."""
        return 2 * self.share + (0 if self.share // INPUTS % 2 else 64)

    @property
    def shared(self) -> int:
        """Bytes of a block: weights, or afterwards all warps' sums; barriers and biases."""
        sums = self.warps * ROWS * self.outputs * 4
        return max(self.outputs * self.line, sums) + 8 * (self.outputs // UNIT) + 4 * self.outputs

    @property
    def cost(self) -> int:
        """What a block reads of weights and rows, and what is added later."""
        return (self.outputs + ROWS) * self.share + PART * self.parts


def cut(outputs: int, inputs: int, whole: bool, blocks: int, shared: int) -> Cut | None:
    """The cheapest whose blocks all run at once where there is room for so many, with so many bytes of shared memory each, or None.

    whole: not cut along its inputs.
    """
    found, usable = [], blocks - blocks // SPARE
    for parts in (1,) if whole else range(1, 9):
        share = inputs // parts
        if share * parts != inputs or share % INPUTS:
            continue
        columns = [n for n in range(UNIT, MOST_OUTPUTS + 1, UNIT) if -(-outputs // n) * parts <= usable]
        if columns and (warps := warps_of(share // INPUTS)):
            found.append(Cut(columns[0], parts, share, warps))
    return min((one for one in found if one.shared <= shared), key=lambda one: one.cost, default=None)


def warps_of(times: int) -> int:
    """The fewest that take inputs so many times, as evenly as can be; 0 where they are too many."""
    able = [warps for warps in range(min(times, LEAST_WARPS), MOST_WARPS + 1) if times <= warps * MOST_OWN]
    return min(able, key=lambda warps: (-times % warps, warps), default=0)


def runs_on(device: torch.device) -> bool:
    """Whether a device is a Hopper GPU, where the kernels could be compiled so far."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device)[0] == HOPPER and device not in BROKEN


def found_kernel(name: str, defines: dict[str, int], device: torch.device, threads: int, shared: int) -> Kernel | None:
    """None, told in one line, where it cannot be compiled; then Triton's kernels serve for good."""
    try:
        return kernel(name, tuple(defines.items()), device, threads, shared)
    except (WeftError, OSError) as error:
        log.warning("steps of several rows are taken by Triton's kernels, which take longer: %s", error)
        BROKEN.add(device)
        return None


@cache
def cut_on(outputs: int, inputs: int, whole: bool, device: torch.device) -> Cut | None:
    gpu: Any = torch.cuda.get_device_properties(device)
    return cut(outputs, inputs, whole, gpu.multi_processor_count, gpu.shared_memory_per_block_optin)


def cut_of(weight: Tensor, whole: bool) -> Cut | None:
    """How the product with these weights is divided; None where it is not served."""
    outputs, inputs = weight.shape
    held = weight.dtype == torch.bfloat16 and weight.is_contiguous() and weight.data_ptr() % ALIGNED == 0
    return cut_on(outputs, inputs, whole, weight.device) if runs_on(weight.device) and held and outputs % 2 == 0 else None


class MatmulArgs(ctypes.Structure):
    """As `Args` of decode_matmul.cu."""

    _fields_ = [(name, ctypes.c_uint64) for name in ("x", "weight", "bias", "out", "rows", "outputs")]


class AttentionArgs(ctypes.Structure):
    """As `Args` of decode_attention.cu."""

    TENSORS = ("qkv", "keys", "values", "lengths", "table", "out", "mixes", "tops", "totals")
    REST = ("positions", "row_stride", "group_stride", "window")
    _fields_ = [*((name, ctypes.c_uint64) for name in TENSORS + REST), ("scale", ctypes.c_float)]


def product(x: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor, found: Cut, *, kind: str, whole: bool) -> bool:
    """Whether it was done."""
    rows, (outputs, inputs) = len(x), weight.shape
    defines = {
        "M": inputs, "SHARE": found.share, "BN": found.outputs, "TILES": 1 if rows <= ROWS // 2 else 2, "WARPS": found.warps,
        "FLIGHT": FLIGHT, "PARTS": 0 if whole else found.parts, "KIND": KINDS.index(kind),
    }  # fmt: skip
    start = found_kernel("decode_matmul", defines, x.device, 32 * found.warps + 32, found.shared)
    if start:
        given = MatmulArgs(x.data_ptr(), weight.data_ptr(), 0 if bias is None else bias.data_ptr(), out.data_ptr(), rows, outputs)
        start.early(given, (-(-outputs // found.outputs), found.parts, -(-rows // ROWS)))
    return start is not None


def supports_attention(keys: Tensor, heads: int) -> bool:
    """Whether attention to such a cache (R, G, S, K) is served."""
    _, kv_heads, _, head = keys.shape
    fits = head in (32, 64, 128) and heads % kv_heads == 0 and heads // kv_heads <= MOST_QUERIES
    return runs_on(keys.device) and fits and keys.dtype == torch.bfloat16 and keys.stride(2) == head and keys.data_ptr() % ALIGNED == 0


def decode_attention(
    qkv: Tensor, keys: Tensor, values: Tensor, lengths: Tensor, rotary: Tensor | None, out: Tensor, workspace: Any, *, window: int,
    heads: int, split: int,
) -> bool:  # fmt: skip
    """As `decode_kernels.decode_attention`, less the weighing of parts, of `split` positions each -> whether it was done."""
    rows, kv_heads, size, head = keys.shape
    defines = {
        "HEADS": heads, "GROUPS": kv_heads, "K": head, "WARPS": ATTENTION_WARPS, "STAGES": ATTENTION_STAGES, "SPLIT": split,
        "ROTARY": 0 if rotary is None else ROPE_KINDS[rotary.dtype], "WHOLE": int(workspace is None),
    }  # fmt: skip
    rings, fresh = ATTENTION_WARPS * ATTENTION_STAGES * 32 * (2 * head + 16), 2 * (MOST_QUERIES * (head + 8) + 2 * head)
    start = found_kernel("decode_attention", defines, qkv.device, 32 * ATTENTION_WARPS, rings + fresh)
    if start:
        tensors = (qkv, keys, values, lengths, qkv if rotary is None else rotary, out, *(workspace or (out, out, out)))
        positions = 0 if rotary is None else rotary.size(1)
        given = AttentionArgs(*(t.data_ptr() for t in tensors), positions, keys.stride(0), keys.stride(1), window or size + 1, head**-0.5)
        start.early(given, (rows, kv_heads, len(workspace[1]) if workspace else 1))
    return start is not None
