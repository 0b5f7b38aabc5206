"""Passages of running text, of which objectives of word vectors make examples, thousands in a step.

An example is the next L places of the text. Words too rare for the vocabulary are removed before; documents are parted by IGNORE.

Batch: words (B, L) int32, IGNORE between documents and behind the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from weft.core.errors import ConfigError
from weft.data.base import IGNORE, Batch, Dataset, TensorDataset
from weft.data.text.cooccurrence import CooccurrenceConfig


@dataclass(frozen=True, kw_only=True)
class PassagesConfig(CooccurrenceConfig):
    vocabulary: int = 1_000_000
    """Largest number of words."""
    length: int = 1000
    """Places L of a passage."""

    def _dataset(self, tokens: Tensor, document: Tensor, frequencies: tuple[int, ...]) -> Dataset:
        if self.length < 2:
            raise ConfigError(f"--data.length must be at least 2, not {self.length}")
        words, parted = len(tokens), torch.arange(len(tokens)) + document
        size = int(parted[-1]) + 1 if words else 0
        places = torch.full((-(-size // self.length) * self.length,), IGNORE, dtype=torch.int32)
        places[parted] = tokens
        return Passages(places.view(-1, self.length), words)

    def _info(self, frequencies: tuple[int, ...], train: Dataset, validation: Dataset) -> dict[str, Any]:
        facts = super()._info(frequencies, train, validation)
        counts = {
            f"{name}_words": data.number for name, data in (("training", train), ("validation", validation)) if isinstance(data, Passages)
        }
        return {**facts, **counts, "tokens": self.length, "window": self.window, "subsample": self.subsample}


class Passages(TensorDataset):
    def __init__(self, words: Tensor, number: int):
        """words (N, L), and how many of them are words."""
        super().__init__({"words": words})
        self.number = number

    def batch(self, index: Tensor, key: Tensor) -> Batch:
        return {"words": self.tensors["words"].index_select(0, index)}

    def to(self, device: torch.device) -> Dataset:
        return Passages(self.tensors["words"].to(device), self.number)
