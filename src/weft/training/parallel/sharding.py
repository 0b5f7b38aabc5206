"""What one process saves of a divided tensor: boxes of the whole, named by where they begin."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset


def shards(held: Tensor, like: DTensor, order: Tensor | None) -> dict[str, Tensor]:
    """This process's part of a tensor divided as `like` is. Rows that were put in another order make a piece for each run of neighbours."""
    if held.shape == like.shape:
        return {"": held}
    _, start = compute_local_shape_and_global_offset(like.shape, like.device_mesh, like.placements)
    rows = torch.arange(start[0], start[0] + len(held)) if order is None else order[start[0] : start[0] + len(held)]
    cuts = [place + 1 for place, step in enumerate(rows.diff().tolist()) if step != 1]
    names = [",".join(map(str, (int(rows[first]), *start[1:]))) for first in (0, *cuts)]
    return {f"[{name}]": piece for name, piece in zip(names, held.tensor_split(cuts), strict=True)}


def sharded_over(like: Tensor) -> set[str]:
    """The axes of processes along which they hold different parts."""
    if not isinstance(like, DTensor):
        return set()
    axes = zip(like.device_mesh.mesh_dim_names or (), like.placements, strict=True)
    return {axis for axis, placement in axes if not placement.is_replicate()}
