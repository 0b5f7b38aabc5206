"""Pairs of similar length in batches of about equally many tokens (Vaswani et al., 2017, section 5.1).

An example of this data set is a whole batch: train with --train.batch 1. Its rows are pairs that fit the same width, as many
as the tokens allow; the last batch of a bucket is filled with padding rows, which the loss ignores. row_key (B,) seeds the
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

PADDING_ROW = -1


def widths(longest: int) -> list[int]:
    """Bucket widths up to the longest text, growing by factors of 3/2 and 4/3 in turn."""
    result = [8]
    while result[-1] < longest:
        result.append(result[-1] * 3 // 2 if result[-1] & (result[-1] - 1) == 0 else result[-1] * 4 // 3)
    return result


class LengthBuckets(Dataset):
    """Batches of pairs of similar length. They stay on the host: each shape needs a CUDA graph of its own."""

    def __init__(self, pairs: Pairs, tokens: int, max_width: int = 0):
        """tokens: of each side of a batch, padding included. max_width: the context of the model."""
        self.pairs = pairs
        lengths = torch.maximum(pairs.source.sizes, pairs.target.sizes).numpy()
        self.members: list[np.ndarray] = []
        self.width: list[int] = []
        low = 0
        for step in widths(int(lengths.max())):
            width = min(step, max_width or step)
            in_bucket = np.flatnonzero((lengths > low) & (lengths <= width))
            rows, low = max(1, tokens // width), width
            for start in range(0, len(in_bucket), rows):
                members = np.full(rows, PADDING_ROW)
                members[: len(in_bucket[start : start + rows])] = in_bucket[start : start + rows]
                self.members.append(members)
                self.width.append(width)
        positions = sum(len(members) * width for members, width in zip(self.members, self.width, strict=True))
        self.padding = 1 - int(pairs.source.sizes.sum() + pairs.target.sizes.sum()) / (2 * positions)
        """Share of all positions that is padding."""

    def __len__(self) -> int:
        return len(self.members)

    def batch(self, index: Tensor, key: Tensor) -> Batch:
        chosen = index.tolist()
        width = max(self.width[i] for i in chosen)
        rows = torch.from_numpy(np.concatenate([self.members[i] for i in chosen]))
        is_padding = rows == PADDING_ROW
        whole = self.pairs.batch(rows.clamp(min=0), key)
        batch = {}
        for side in ("source", "target"):
            cut = F.pad(whole[side], (0, width))[:, :width]  # PAD is 0
            batch[side] = cut.masked_fill(is_padding[:, None], 0)
            batch[f"{side}_length"] = whole[f"{side}_length"].masked_fill(is_padding, 0)
        number = torch.cat([torch.arange(len(self.members[i])) for i in chosen])  # of each row in its own batch
        members = torch.tensor([len(self.members[i]) for i in chosen])
        batch["row_key"] = random.fold(key.repeat_interleave(members), number)
        return batch
