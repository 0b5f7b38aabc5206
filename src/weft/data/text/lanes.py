"""A text read in contiguous lanes, for models that carry a state from batch to batch (truncated back-propagation through time).

Lane l holds the l-th of L equal parts of the tokens, cut into windows that meet. Draw d is the next window of lane d mod L, so an example
of a batch goes on where the one of its lane stopped in the batch before. An epoch begins all lanes anew; tokens that fill no window of all
lanes are left out. Where windows shift, every epoch begins at another of the first tokens, so that a text is cut elsewhere each time.

Batch: ids (B, T), targets (B, T), lane (B,), begins (B,) True where a window is the first of its lane.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from weft.core.errors import ConfigError, DataError
from weft.data.base import Batch, Dataset

GOLDEN = (math.sqrt(5) - 1) / 2
"""Whose multiples spread most evenly over an interval."""


class LaneWindows(Dataset):
    def __init__(self, tokens: Tensor, context: int, lanes: int, shift: bool = False):
        self.tokens, self.context, self.lanes, self.shift = tokens, context, lanes, shift
        self.windows = (len(tokens) - (context if shift else 1)) // (lanes * context)
        """Of a lane."""
        if not self.windows:
            raise DataError(
                f"the training text has {len(tokens):,} tokens, too few for a window of {context} in each of {lanes} lanes; "
                "lower --data.lanes or --data.context"
            )

    def __len__(self) -> int:
        return self.lanes * self.windows

    def order(self, first: int, count: int, seed: int, shuffle: bool) -> np.ndarray:
        """Always that of the text; where windows shift, an index also tells the epoch."""
        epochs, draws = np.divmod(np.arange(first, first + count, dtype=np.int64), len(self))
        index: np.ndarray = draws % self.lanes * self.windows + draws // self.lanes
        return index + epochs * len(self) if self.shift else index

    def batch(self, index: Tensor, key: Tensor) -> Batch:
        epoch, index = index // len(self), index % len(self)
        lane, window = index // self.windows, index % self.windows
        begin = index * self.context + (epoch.double() * GOLDEN % 1 * self.context).long()  # windows of all lanes meet
        tokens = self.tokens[begin[:, None] + torch.arange(self.context + 1, device=index.device)].long()  # (B, T + 1)
        return {"ids": tokens[:, :-1], "targets": tokens[:, 1:], "lane": lane, "begins": window == 0}

    def to(self, device: torch.device) -> Dataset:
        return LaneWindows(self.tokens.to(device), self.context, self.lanes, self.shift)

    @property
    def device(self) -> torch.device:
        return self.tokens.device


def check_lanes(lanes: int, batch: int) -> None:
    """Refuse a batch that would hold two windows of one lane."""
    if 0 < lanes < batch:
        raise ConfigError(
            f"--train.batch {batch} is more than --data.lanes {lanes}, so a batch would hold two windows of one lane; make them equal"
        )
