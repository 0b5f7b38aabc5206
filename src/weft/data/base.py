"""What the trainer knows of data: examples addressed by index, and an order that is a pure function of seed and position."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from weft import random
from weft.config import Config
from weft.errors import DataError

Batch = dict[str, Tensor]
"""Tensors whose first dimension is the example. "key" (B,) seeds each example's own noise; other keys are the data's."""

IGNORE = -100
"""A target or label that is not counted."""

UNLABELLED = -1
"""The label of an example whose class is not known."""


class Dataset:
    """Examples addressed by index; a batch is made at once, on the device the examples live on."""

    def __len__(self) -> int:
        raise NotImplementedError

    def batch(self, index: Tensor, key: Tensor) -> Batch:
        """index (B,) int64 and key (B,) int64, on the dataset's device -> the batch. Noise comes from key only."""
        raise NotImplementedError

    def to(self, device: torch.device) -> Dataset:
        """Move the examples where batches are wanted; a dataset too large to move returns itself."""
        return self

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")


class TensorDataset(Dataset):
    """Examples held as tensors of equal first dimension, optionally transformed a batch at a time."""

    def __init__(self, tensors: dict[str, Tensor], transform: Transform | None = None):
        self.tensors = tensors
        self.transform = transform
        sizes = {name: len(tensor) for name, tensor in tensors.items()}
        if len(set(sizes.values())) != 1:
            raise DataError(f"columns of different lengths: {sizes}")

    def __len__(self) -> int:
        return len(next(iter(self.tensors.values())))

    def batch(self, index: Tensor, key: Tensor) -> Batch:
        batch = {name: tensor[index] for name, tensor in self.tensors.items()}
        return self.transform(batch, key) if self.transform else batch

    def to(self, device: torch.device) -> Dataset:
        return TensorDataset({name: tensor.to(device) for name, tensor in self.tensors.items()}, self.transform)

    @property
    def device(self) -> torch.device:
        return next(iter(self.tensors.values())).device


class Transform(Protocol):
    """A change to a batch (augmentation, binarisation), random only through the keys."""

    def __call__(self, batch: Batch, key: Tensor) -> Batch: ...


@dataclass
class Problems:
    """Rows, files or bytes that could not be used, each counted and the first few named with their place."""

    counts: dict[str, int] = field(default_factory=dict)
    places: dict[str, list[str]] = field(default_factory=dict)

    def add(self, reason: str, place: str, number: int = 1) -> None:
        self.counts[reason] = self.counts.get(reason, 0) + number
        named = self.places.setdefault(reason, [])
        if len(named) < 10:
            named.append(place)

    def lines(self) -> list[str]:
        """One sentence per kind of problem."""
        return [
            f"{count} × {reason}: {', '.join(self.places[reason][:3])}{', …' if count > 3 else ''}"
            for reason, count in self.counts.items()
        ]


@dataclass
class Data:
    """What `DataConfig.build()` returns."""

    train: Dataset
    validation: Dataset | None
    info: dict[str, Any]
    """Facts the other parts depend on: vocabulary, features, classes, tokens (per example), …"""
    tokenizer: Any = None
    problems: Problems = field(default_factory=Problems)


@dataclass(frozen=True, kw_only=True)
class DataConfig(Config):
    """Settings of a data source."""

    def build(self) -> Data:
        raise NotImplementedError


def order(first: int, count: int, size: int, seed: int, shuffle: bool = True) -> np.ndarray:
    """The example at each of the draws first, first + 1, …: every epoch is another permutation of all examples."""
    draws = np.arange(first, first + count, dtype=np.int64)
    if not shuffle:
        return draws % size
    index = np.empty(count, dtype=np.int64)
    for epoch in range(first // size, (first + count - 1) // size + 1):
        inside = draws // size == epoch
        index[inside] = random.permute(draws[inside] % size, size, random.seed_of(seed, "order", epoch))
    return index


class Source:
    """Batches of a dataset by position: the same for any number of workers, and seeking costs nothing."""

    BLOCK = 1 << 14
    """Draws whose order is computed together and sent to the device in one copy."""

    def __init__(self, dataset: Dataset, seed: int, device: torch.device, shuffle: bool = True):
        if not len(dataset):
            raise DataError("the data set has no examples")
        self.dataset = dataset.to(device)
        self.device, self.seed, self.shuffle = device, seed, shuffle
        self._first, self._index, self._key = 0, torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.int64)

    def batch(self, first: int, size: int) -> Batch:
        """The examples of draws first … first + size - 1."""
        if first < self._first or first + size > self._first + len(self._index):
            self._fill(first, max(size, self.BLOCK))
        start = first - self._first
        index, key = self._index[start : start + size], self._key[start : start + size]
        batch = self.dataset.batch(index, key)
        if self.dataset.device != self.device:
            batch = {name: tensor.to(self.device, non_blocking=True) for name, tensor in batch.items()}
            key = key.to(self.device, non_blocking=True)
        return {**batch, "key": key}

    def _fill(self, first: int, count: int) -> None:
        place = self.dataset.device
        indices = torch.from_numpy(order(first, count, len(self.dataset), self.seed, self.shuffle))
        draws = torch.arange(first, first + count)
        self._first = first
        self._index = indices.to(place)
        self._key = random.keys(random.seed_of(self.seed, "example"), draws).to(place)
