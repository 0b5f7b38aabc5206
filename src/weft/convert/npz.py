"""Models that are a file of numpy's arrays (.npz), known by the names of these; nothing in one is ever unpickled or run."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import torch

from weft.convert.folder import Foreign
from weft.convert.g2p import ARRAYS, tokenizer
from weft.core import untrusted
from weft.core.errors import CheckpointError
from weft.core.untrusted import parsing

LARGEST = 1 << 30
"""Bytes of all arrays together."""


def read(path: Path) -> Foreign:
    """The arrays of a file as the weights of the family that has them."""
    with parsing(str(path), CheckpointError, ": is no file of arrays that can be read"), untrusted.open_regular(path) as file:
        with zipfile.ZipFile(file) as archive:
            if sum(member.file_size for member in archive.infolist()) > LARGEST:
                raise CheckpointError(f"{path}: would unpack to more than {LARGEST >> 30} GiB")
        file.seek(0)
        with np.load(file, allow_pickle=False) as arrays:
            tensors = {name: torch.from_numpy(arrays[name]) for name in arrays.files}
    if set(tensors) != set(ARRAYS):
        raise CheckpointError(f"{path}: holds {', '.join(sorted(tensors)[:4])} …; of such files weft knows that of g2p-en only")
    width, embedding = tensors["fc_w"].size(1), tensors["enc_emb"].size(1)
    return Foreign({"model_type": "g2p-en", "width": width, "embedding_width": embedding}, tensors, tokenizer())
