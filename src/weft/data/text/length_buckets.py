"""Pairs of similar length in batches of about equally many tokens (Vaswani et al., 2017, section 5.1).

An example of this data set is a whole batch: train with --train.batch 1. Its rows are pairs that fit the same width, as many
as have the tokens wanted, padding not counted. All batches of a width have equally many rows, so that there are few shapes: the
rows that are missing are empty and count for nothing. row_key (B,) seeds the noise of each row, as key does that of the whole batch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from weft.core import random
from weft.data.base import Batch, Dataset

ABSENT = -1


def widths(longest: int) -> list[int]:
    """Bucket widths up to the longest text, each half as large again or a third larger than the one before."""
    found = [8]
    while found[-1] < longest:
        found.append(found[-1] * 3 // 2 if found[-1] & (found[-1] - 1) == 0 else found[-1] * 4 // 3)
    return found


def divide(source: np.ndarray, target: np.ndarray, tokens: int, most: int = 0) -> tuple[list[np.ndarray], list[int]]:
    """Lengths of both sides (N,), tokens of a batch -> the pairs of every batch, ABSENT where a row is empty, and its width.

    What is left of a bucket waits for the next wider one, so that only the number of all batches has to be rounded.
    """
    need, sizes = np.maximum(source, target), (source + target) / 2
    total = max(1, round(sizes.sum() / tokens))
    share = sizes.sum() / total  # tokens of a batch, as near as that number allows
    members: list[np.ndarray] = []
    width: list[int] = []
    waiting, low, before, made, steps = np.zeros(0, dtype=np.int64), 0, 0.0, 0, widths(int(need.max()))
    for step in steps:
        high = min(step, most or step)
        own = shuffled(np.flatnonzero((need > low) & (need <= high)))
        behind = before + sizes[own].cumsum()  # tokens of all buckets up to each pair of this one
        low, before = high, before + sizes[own].sum()
        until = total if step == steps[-1] else int(before / share)
        taken = len(own) if step == steps[-1] else int(np.searchsorted(behind - sizes[own] / 2, until * share))
        if until > made and len(waiting) + taken:
            batches = cut(shuffled(np.concatenate((waiting, own[:taken]))), sizes, until - made)
            members, width, made = members + batches, width + [high] * len(batches), until
            waiting, own = own[:0], own[taken:]
        waiting = np.concatenate((waiting, own))
    return members, width


def shuffled(pairs: np.ndarray) -> np.ndarray:
    order = random.permute(np.arange(len(pairs)), len(pairs), random.seed_of("buckets"))
    return np.take(pairs, order)


def cut(pairs: np.ndarray, sizes: np.ndarray, number: int) -> list[np.ndarray]:
    """Pairs in so many batches with equally many tokens, each with as many rows as the largest needs; fewer where a pair has more."""
    behind = sizes[pairs].cumsum()
    batch = ((behind - sizes[pairs] / 2) * number / behind[-1]).astype(np.int64)
    rows = int(np.bincount(batch, minlength=number).max())
    batches = [pairs[batch == i] for i in range(number)]
    return [np.concatenate((held, np.full(rows - len(held), ABSENT))) for held in batches if len(held)]


class LengthBuckets(Dataset):
    """Batches of pairs. They stay on the host: each has its own shape, which a captured graph must be told apart by."""

    def __init__(self, pairs: Dataset, tokens: int, most: int = 0, lengths: tuple[np.ndarray, np.ndarray] | None = None):
        """tokens: of a batch, on the mean of both sides. most: what a model has room for, so no batch is wider. lengths: of both sides
        (N,), by default of source and target."""
        self.pairs = pairs
        source, target = lengths or side_lengths(pairs)
        self.members, self.width = divide(source, target, tokens, most)
        positions = sum(len(held) * width for held, width in zip(self.members, self.width, strict=True))
        self.padding = 1 - int(source.sum() + target.sum()) / (2 * positions)
        """Share of all positions that is padding."""

    def __len__(self) -> int:
        return len(self.members)

    def shapes(self) -> list[tuple[int, int]]:
        width = np.array(self.width)
        return [(int((width == each).argmax()), int((width == each).sum())) for each in sorted(set(self.width))]

    def rows_of(self, index: Tensor) -> tuple[Tensor, int]:
        """The pairs of some batches one after the other, ABSENT where a row is empty, and the width that all fit."""
        chosen = index.tolist()
        return torch.from_numpy(np.concatenate([self.members[i] for i in chosen])), max(self.width[i] for i in chosen)

    def row_keys(self, index: Tensor, key: Tensor) -> Tensor:
        """A key for each row of some batches with a key each (B,)."""
        held = [len(self.members[i]) for i in index.tolist()]
        number = torch.cat([torch.arange(rows) for rows in held])  # of each row in its own batch
        return random.fold(key.repeat_interleave(torch.tensor(held)), number)

    def batch(self, index: Tensor, key: Tensor) -> Batch:
        rows, width = self.rows_of(index)
        absent = rows == ABSENT
        whole = self.pairs.batch(rows.clamp(min=0), key)
        batch = {}
        for side in ("source", "target"):
            cut = F.pad(whole[side], (0, width))[:, :width]  # PAD is 0
            batch[side] = cut.masked_fill(absent[:, None], 0)
            batch[f"{side}_length"] = whole[f"{side}_length"].masked_fill(absent, 0)
        batch["row_key"] = self.row_keys(index, key)
        return batch


def side_lengths(pairs: Any) -> tuple[np.ndarray, np.ndarray]:
    return pairs.source.sizes.numpy(), pairs.target.sizes.numpy()
