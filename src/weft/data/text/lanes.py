"""A text read in contiguous lanes, for models that carry a state from batch to batch (truncated back-propagation through time).

Lane l holds the l-th of L equal parts of the tokens, cut into windows that meet. Draw d is the next window of lane d mod L, so an example
of a batch goes on where the one of its lane stopped in the batch before. An epoch begins all lanes anew; tokens that fill no window of all
lanes are left out.

Batch: ids (B, T), targets (B, T), lane (B,), begins (B,) True where a window is the first of its lane.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from weft.core.errors import ConfigError, DataError
from weft.data.base import Batch, Dataset


class LaneWindows(Dataset):
    def __init__(self, tokens: Tensor, context: int, lanes: int):
        self.tokens, self.context, self.lanes = tokens, context, lanes
        self.windows = (len(tokens) - 1) // (lanes * context)
        """Of a lane."""
        if not self.windows:
            raise DataError(
                f"the training text has {len(tokens):,} tokens, too few for a window of {context} in each of {lanes} lanes; "
                "lower --data.lanes or --data.context"
            )

    def __len__(self) -> int:
        return self.lanes * self.windows

    def order(self, first: int, count: int, seed: int, shuffle: bool) -> np.ndarray:
        """Always that of the text."""
        draws = np.arange(first, first + count, dtype=np.int64) % len(self)
        return draws % self.lanes * self.windows + draws // self.lanes

    def batch(self, index: Tensor, key: Tensor) -> Batch:
        lane, window = index // self.windows, index % self.windows
        begin = index * self.context  # windows of all lanes meet
        tokens = self.tokens[begin[:, None] + torch.arange(self.context + 1, device=index.device)].long()  # (B, T + 1)
        return {"ids": tokens[:, :-1], "targets": tokens[:, 1:], "lane": lane, "begins": window == 0}

    def to(self, device: torch.device) -> Dataset:
        return LaneWindows(self.tokens.to(device), self.context, self.lanes)

    @property
    def device(self) -> torch.device:
        return self.tokens.device


def check_lanes(lanes: int, batch: int) -> None:
    """Refuse a batch that would hold two windows of one lane."""
    if 0 < lanes < batch:
        raise ConfigError(
            f"--train.batch {batch} is more than --data.lanes {lanes}, so a batch would hold two windows of one lane; make them equal"
        )
