"""The data interface of the trainer: datasets addressed by index, in an order that is a pure function of seed and position."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor

from weft.core import config, random, registry
from weft.core.config import Config
from weft.core.errors import ConfigError, DataError
from weft.data.problems import Problems as Problems

Batch = dict[str, Tensor]
"""Tensors whose first dimension is the example. "key" (B,) seeds the noise of each example; other keys depend on the data."""

IGNORE = -100
"""The target or label that the loss ignores."""

UNKNOWN_NATS = math.log(0x110000)
"""What a character that is left out costs where texts are scored: any of Unicode's code points, all as likely, which is 20.1 bits. Were it
free, what a model cannot write would make it look better."""

UNLABELLED = -1
"""The label of an example whose class is unknown."""


class Dataset:
    """Examples addressed by index; whole batches are built on the device the examples live on."""

    def __len__(self) -> int:
        raise NotImplementedError

    def batch(self, index: Tensor, key: Tensor) -> Batch:
        """index (B,) int64 and key (B,) int64, on the dataset's device -> the batch. Noise comes from key only."""
        raise NotImplementedError

    def order(self, first: int, count: int, seed: int, shuffle: bool) -> np.ndarray:
        """The indices of the examples of draws first, first + 1, …, a function of seed and draw number alone."""
        return order(first, count, len(self), seed, shuffle)

    def shares(self, draws: int, seed: int) -> list[dict[str, Any]]:
        """How much of each source so many draws take, for a dataset that mixes several sources."""
        return []

    def shapes(self) -> list[tuple[int, int]]:
        """One example of every shape that examples have, and how many have that shape."""
        return [(0, len(self))]

    def to(self, device: torch.device) -> Dataset:
        """The dataset on a device; one that is too large to move returns itself."""
        return self

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")


class TensorDataset(Dataset):
    """Tensors of equal first dimension, with an optional transform of each batch."""

    def __init__(self, tensors: dict[str, Tensor], transform: Transform | None = None):
        self.tensors = tensors
        self.transform = transform
        sizes = {name: len(tensor) for name, tensor in tensors.items()}
        if len(set(sizes.values())) != 1:
            raise DataError(f"columns of different lengths: {sizes}")

    def __len__(self) -> int:
        return len(next(iter(self.tensors.values())))

    def batch(self, index: Tensor, key: Tensor) -> Batch:
        batch = {name: tensor.index_select(0, index) for name, tensor in self.tensors.items()}
        return self.transform(batch, key) if self.transform else batch

    def to(self, device: torch.device) -> Dataset:
        size = sum(tensor.nbytes for tensor in self.tensors.values())
        if device.type == "cuda" and self.device.type == "cpu" and size > torch.cuda.mem_get_info(device)[0] // 2:
            return self  # the model needs room too; batches travel one by one
        return TensorDataset({name: tensor.to(device) for name, tensor in self.tensors.items()}, self.transform)

    @property
    def device(self) -> torch.device:
        return next(iter(self.tensors.values())).device


class Transform(Protocol):
    """A transform of a batch (augmentation, binarisation), random only through the keys."""

    def __call__(self, batch: Batch, key: Tensor) -> Batch: ...


@dataclass
class Data:
    """Training and validation datasets with their tokenizer, as `DataConfig.build()` returns them."""

    train: Dataset
    validation: Dataset | None
    info: dict[str, Any]
    """Sizes the model and objective depend on: vocabulary, features, classes, tokens (per example), …"""
    tokenizer: Any = None
    problems: Problems = field(default_factory=Problems)


@dataclass(frozen=True, kw_only=True)
class DataConfig(Config):
    """Settings of a data source."""

    file_source: ClassVar[str] = ""
    """Registry name of the source that reads the user's own files of the same kind, where this one has no `path`."""
    model_preprocessing: ClassVar[tuple[str, ...]] = ()
    """Preprocessing fields that belong to a trained model: finetuning takes them from its checkpoint."""

    def build(self) -> Data:
        raise NotImplementedError

    def build_with(self, tokenizer: Any) -> Data:
        """As `build`, but with the tokenizer of a trained model (None: as `build`); a source without tokens ignores it."""
        data = self.build()
        if tokenizer is not None and data.tokenizer is not None and data.tokenizer.to_json() != tokenizer.to_json():
            name = registry.name_of(type(self)) or type(self).__name__
            raise DataError(f"the data {name!r} have other tokens or classes than those the model was trained with")
        return data


def with_path(own: DataConfig) -> DataConfig:
    """Settings of a source that reads files: the recipe's own, or the one that its source names for them."""
    if hasattr(own, "path"):
        return own
    if not own.file_source:
        raise ConfigError(f"{registry.name_of(type(own))} data has no path; this model can only be evaluated on data of its recipe")
    source: DataConfig = config.change_type(own, registry.find("data", own.file_source))
    return source


def order(first: int, count: int, size: int, seed: int, shuffle: bool = True) -> np.ndarray:
    """The index of the example of each draw first, first + 1, …: every epoch is another permutation of all examples."""
    draws = np.arange(first, first + count, dtype=np.int64)
    if not shuffle:
        return draws % size
    index = np.empty(count, dtype=np.int64)
    for epoch in range(first // size, (first + count - 1) // size + 1):
        in_epoch = slice(max(epoch * size - first, 0), (epoch + 1) * size - first)
        index[in_epoch] = random.permute(draws[in_epoch] - epoch * size, size, random.seed_of(seed, "order", epoch))
    return index


def keep_probabilities(frequencies: tuple[int, ...], threshold: float) -> Tensor:
    """min(1, sqrt(t / f)) of every word (V,), f its frequency in the text."""
    count = torch.tensor(frequencies, dtype=torch.float64)
    share = threshold * count.sum() / count.clamp(min=1)
    return share.sqrt().clamp(max=1).float() if threshold else torch.ones(len(frequencies))


class DataLoader:
    """A stateless data loader: batches of a dataset by draw number, the same for any number of workers; seeking costs nothing."""

    BLOCK = 1 << 14
    """Draws whose order is computed together and copied to the device at once."""

    def __init__(self, dataset: Dataset, seed: int, device: torch.device, shuffle: bool = True):
        if not len(dataset):
            raise DataError("the data set has no examples")
        self.dataset = dataset.to(device)
        self.device, self.seed, self.shuffle = device, seed, shuffle
        self.resident = self.dataset.device.type == device.type
        self._first, self._index = 0, torch.empty(0, dtype=torch.int64)
        self._keys: dict[int, Tensor] = {}

    def reseed(self, seed: int) -> None:
        """Change the order to that of another seed; the examples stay on their device."""
        self.seed, self._index, self._keys = seed, self._index[:0], {}

    def batch(self, first: int, size: int, stream: int = 0) -> Batch:
        """The batch of draws first … first + size - 1; another stream is the same examples with other noise."""
        return self.examples(self.draw(first, size, stream))

    def draw(self, first: int, size: int, stream: int = 0) -> Batch:
        """The tensors to copy to the device for a batch: only indices and keys where the dataset lives there."""
        if first < self._first or first + size > self._first + len(self._index):
            self._fill(first, max(size, min(self.BLOCK, 8 * len(self.dataset))))
        if stream not in self._keys:
            self._keys[stream] = random.fold(self._keys[0], stream)
        start = first - self._first
        index, key = self._index[start : start + size], self._keys[stream][start : start + size]
        if self.resident:
            return {"index": index, "key": key}
        batch = {**self.dataset.batch(index, key), "key": key}
        return {name: tensor.to(self.device, non_blocking=True) for name, tensor in batch.items()}

    def examples(self, drawn: Batch) -> Batch:
        """The batch of what `draw` returned. This runs on the device and may be part of a captured graph."""
        if not self.resident:
            return drawn
        return {**self.dataset.batch(drawn["index"], drawn["key"]), "key": drawn["key"]}

    def fingerprint(self, count: int = 32) -> str:
        """A digest of the first examples, to recognise changed data; of floats only the rounded mean counts."""
        digest = hashlib.sha256(str(len(self.dataset)).encode())
        for name, tensor in sorted(self.batch(0, count).items()):
            content = f"{tensor.double().mean():.3g}".encode() if tensor.is_floating_point() else tensor.cpu().numpy().tobytes()
            digest.update(name.encode() + content)
        return digest.hexdigest()[:16]

    def _fill(self, first: int, count: int) -> None:
        device = self.dataset.device
        indices = torch.from_numpy(self.dataset.order(first, count, self.seed, self.shuffle))
        draws = torch.arange(first, first + count)
        self._first = first
        self._index = indices.to(device)
        self._keys = {0: random.keys(random.seed_of(self.seed, "example"), draws).to(device)}
