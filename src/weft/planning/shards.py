"""One device's part of a model, built as PyTorch would build it among thousands, on the meta device with a fake process group.

It proves that a layout exists: tensors are split by DTensor and FSDP2 themselves, and the bytes they leave on a device must be
those the plan says (layout.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

from weft.core.errors import ConfigError
from weft.planning.layout import SPLIT, Layout
from weft.planning.subject import Subject


@contextmanager
def fake_process_group(rank: int, devices: int) -> Iterator[None]:
    """A process group of so many ranks of which only this one exists; exchanges do nothing."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    if dist.is_initialized():
        raise ConfigError("a layout cannot be checked inside a distributed run")
    dist.init_process_group("fake", rank=rank, world_size=devices, store=FakeStore())
    try:
        yield
    finally:
        dist.destroy_process_group()


def bytes_on(subject: Subject, layout: Layout, stage: int = 0) -> int:
    """Bytes of parameters on the first device of a pipeline stage."""
    first = stage * layout.replicate * layout.shard * layout.tensor
    with fake_process_group(first, layout.devices):
        names = ("pipeline", "replicate", "shard", "tensor")
        mesh = init_device_mesh("cpu", tuple(getattr(layout, name) for name in names), mesh_dim_names=names)
        with torch.device("meta"):
            model: Any = subject.model.build()
        cut(model, layout, stage)
        if layout.tensor > 1:
            split(model, mesh["tensor"])
        if layout.data > 1:
            shard(model, mesh["replicate", "shard"])
        return sum(local(p).numel() * local(p).element_size() for p in model.parameters())


def local(parameter: Tensor) -> Tensor:
    return parameter.to_local() if isinstance(parameter, DTensor) else parameter


def cut(model: Any, layout: Layout, stage: int) -> None:
    """Leave the modules of one pipeline stage."""
    if layout.pipeline == 1:
        return
    each = len(model.blocks) // layout.pipeline
    model.blocks = nn.ModuleList([*model.blocks][stage * each : (stage + 1) * each])
    mine = {"blocks"} | ({"embed", "position"} if stage == 0 else set()) | ({"norm", "head"} if stage == layout.pipeline - 1 else set())
    for name, _ in [*model.named_children()]:
        if name not in mine:
            delattr(model, name)


def split(model: Any, mesh: DeviceMesh) -> None:
    """Parameters of the blocks as DTensors: split as `SPLIT` says, or the same on all."""
    for path, parameter in [*model.blocks.named_parameters()]:
        dimension = next((d for end, d in SPLIT.items() if path.endswith(end)), None)
        owner, _, name = path.rpartition(".")
        placed = distribute_tensor(parameter, mesh, [Replicate() if dimension is None else Shard(dimension)])
        model.blocks.get_submodule(owner).register_parameter(name, nn.Parameter(placed))


def shard(model: Any, mesh: DeviceMesh) -> None:
    """FSDP2 over the blocks one by one, then over what is left."""
    for block in getattr(model, "blocks", ()):
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
