"""Pairs of similar length in batches of about equally many tokens (Vaswani et al., 2017, section 5.1).

An example of this data set is a whole batch: train with --train.batch 1. Its rows are pairs that fit the same width, as many
as the tokens allow; what is missing from a bucket's last batch are empty rows, which count for nothing. row_key (B,) seeds the
noise of each row, as key does that of the whole batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from weft.core import random
from weft.data.base import Batch, Dataset

if TYPE_CHECKING:
    from weft.data.text.pairs import Pairs

ABSENT = -1


def widths(longest: int) -> list[int]:
    """Bucket widths up to the longest text, each half as large again or a third larger than the one before."""
    found = [8]
    while found[-1] < longest:
        found.append(found[-1] * 3 // 2 if found[-1] & (found[-1] - 1) == 0 else found[-1] * 4 // 3)
    return found


class Buckets(Dataset):
    """Batches of pairs. They stay on the host: each has its own shape, which a captured graph must be told apart by."""

    def __init__(self, pairs: Pairs, tokens: int, most: int = 0):
        """tokens: of each side of a batch, padding included. most: what a model has room for, so no batch is wider."""
        self.pairs = pairs
        need = torch.maximum(pairs.source.sizes, pairs.target.sizes).numpy()
        self.members: list[np.ndarray] = []
        self.width: list[int] = []
        low = 0
        for step in widths(int(need.max())):
            width = min(step, most or step)
            inside = np.flatnonzero((need > low) & (need <= width))
            rows, low = max(1, tokens // width), width
            for start in range(0, len(inside), rows):
                held = np.full(rows, ABSENT)
                held[: len(inside[start : start + rows])] = inside[start : start + rows]
                self.members.append(held)
                self.width.append(width)
        places = sum(len(held) * width for held, width in zip(self.members, self.width, strict=True))
        self.padding = 1 - int(pairs.source.sizes.sum() + pairs.target.sizes.sum()) / (2 * places)
        """Share of all places that is padding."""

    def __len__(self) -> int:
        return len(self.members)

    def batch(self, index: Tensor, key: Tensor) -> Batch:
        chosen = index.tolist()
        width = max(self.width[i] for i in chosen)
        rows = torch.from_numpy(np.concatenate([self.members[i] for i in chosen]))
        absent = rows == ABSENT
        whole = self.pairs.batch(rows.clamp(min=0), key)
        batch = {}
        for side in ("source", "target"):
            cut = F.pad(whole[side], (0, width))[:, :width]  # PAD is 0
            batch[side] = cut.masked_fill(absent[:, None], 0)
            batch[f"{side}_length"] = whole[f"{side}_length"].masked_fill(absent, 0)
        number = torch.cat([torch.arange(len(self.members[i])) for i in chosen])  # of each row in its own batch
        held = torch.tensor([len(self.members[i]) for i in chosen])
        batch["row_key"] = random.fold(key.repeat_interleave(held), number)
        return batch
