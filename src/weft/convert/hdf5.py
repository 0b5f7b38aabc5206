"""HDF5 files as others write their weights: plain tensors inside the file, nothing that points elsewhere."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from weft.core import untrusted
from weft.core.errors import CheckpointError, require
from weft.core.untrusted import parsing

MOST = 10_000
"""Groups and tensors of a file."""


def read(path: Path) -> dict[str, Tensor]:
    """The tensors of a file by their names, groups joined by "/".

    A link to another file, and a tensor that is stored in one or larger than the file could hold, are refused.
    """
    library = require("h5py", "hdf5")
    tensors: dict[str, Tensor] = {}
    with parsing(path, CheckpointError, ": is no HDF5 file of weights"), untrusted.open_regular(path) as file:
        room = 8 * os.fstat(file.fileno()).st_size  # compressed tensors take less
        with library.File(file, "r") as content:
            _walk(library, content, "", tensors, [room, MOST])
    return tensors


def _walk(library: Any, group: Any, prefix: str, tensors: dict[str, Tensor], left: list[int]) -> None:
    """Read all tensors of a group; `left`: the bytes and the parts that may still be read."""
    for name in group:
        left[1] -= 1
        if left[1] < 0 or prefix.count("/") > untrusted.DEEPEST:
            raise ValueError(f"more than {MOST:,} parts, or groups within groups without end")
        if not isinstance(group.get(name, getlink=True), library.HardLink):
            raise ValueError(f"{prefix}{name} is a link, not a tensor")
        part = group[name]
        if isinstance(part, library.Group):
            _walk(library, part, f"{prefix}{name}/", tensors, left)
            continue
        if not isinstance(part, library.Dataset) or part.external or part.is_virtual or part.dtype.kind != "f":
            raise ValueError(f"{prefix}{name} holds no fractions of its own")
        left[0] -= part.dtype.itemsize * int(np.prod(part.shape, dtype=np.float64))
        if left[0] < 0:
            raise ValueError(f"{prefix}{name} would be larger than the file can hold")
        tensors[prefix + name] = torch.from_numpy(np.asarray(part[...], dtype=np.float32))
