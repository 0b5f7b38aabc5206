"""How a model is used, and whether kernels have anything to do with it: all that a trainer must know to ask `kernels.select`.

Choosing imports every kernel and the layers they stand in for, which a model that has none of them can do without.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

from weft.nn.checkpointed import Checkpointing

Mode = Literal["train", "evaluate", "decode"]


def has_layers_with_kernels(model: nn.Module) -> bool:
    """Whether a model has blocks, attention or recurrent layers, of whichever family."""
    return any(is_block(module) or hasattr(type(module), "attention_fn") or is_recurrent(module) for module in model.modules())


def is_block(module: nn.Module) -> bool:
    """Whether something is a Transformer block, of whichever family."""
    return hasattr(module, "attention") and hasattr(module, "feedforward")


def is_recurrent(module: nn.Module) -> bool:
    """Whether something is a recurrent layer, of whichever family."""
    return hasattr(type(module), "recurrence")


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A device, as far as kernels ask."""

    device: str = "cpu"
    capability: tuple[int, int] = (0, 0)
    """Of a GPU; from (9, 0) on it is a Hopper."""
    triton: bool = False
    processors: int = 0
    """Blocks of a kernel that run at once on a GPU."""
    shared_memory: int = 0
    """Bytes of each of them."""
    side_by_side: bool = False
    """Whether processes may run on a GPU at the same time (MPS), so that none can count on all of it."""

    @classmethod
    def of(cls, device: torch.device) -> Machine:
        if device.type != "cuda" or not torch.cuda.is_available():
            return cls(device=device.type)
        from weft.kernels.cuda.compiler import is_shared

        gpu: Any = torch.cuda.get_device_properties(device)
        return cls(
            device="cuda",
            capability=torch.cuda.get_device_capability(device),
            triton=importlib.util.find_spec("triton") is not None,
            processors=gpu.multi_processor_count,
            shared_memory=gpu.shared_memory_per_block_optin,
            side_by_side=is_shared(device),
        )

    @property
    def hopper(self) -> bool:
        return self.device == "cuda" and self.capability[0] == 9


@dataclass(frozen=True, kw_only=True)
class UsageSpec:
    """How a model is used: what is true of a whole run, whichever layer it is about."""

    machine: Machine = Machine()
    mode: Mode = "train"
    precision: str = "fp32"
    """Of matrix products: fp32, tf32 or bf16."""
    attention: str = "fused"
    """A name of `kernels.attention.CORES`."""
    attention_asked: bool = False
    """Whether the user asked for it by name; then no other one is used."""
    compiled: bool = False
    """Whether PyTorch's compiler makes the step."""
    no_blocks: str = ""
    """Why blocks are computed operation by operation, whatever they are; nothing where kernels may serve."""
    plain_recurrence: str = ""
    """Why recurrent layers are computed step by step; nothing where kernels may serve."""
    checkpointing: Checkpointing = "none"
    """What is kept for the backward pass."""
    parts: frozenset[str] = frozenset({"norm", "feed", "attention", "products"})
    """Parts of the CUDA block that have kernels of their own; a benchmark takes some away."""
