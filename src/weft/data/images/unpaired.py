"""Two folders of images without pairs: paintings and photographs, horses and zebras.

Batch: image (B, C, S, S) of the first folder and other (B, C, S, S) of the second, independent of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from weft.core import random
from weft.core.errors import ConfigError
from weft.data.base import Batch, Data, DataConfig, Dataset, Problems
from weft.data.images.augment import Augment
from weft.data.images.pixels import ImagesConfig


@dataclass(frozen=True, kw_only=True)
class UnpairedImagesConfig(DataConfig):
    path: str = ""
    """Folder of images of the first domain."""
    other: str = ""
    """Folder of images of the second."""
    size: int = 143
    """Side in pixels to which images are resized, after a centre crop to a square."""
    crop_size: int = 128
    """Side of the crop that is taken: at random in training, the centre in validation; 0 for no crop."""
    channels: Literal[1, 3] = 3
    """1 for grey, 3 for colour."""
    flip: float = 0.5
    """Probability of a horizontal flip in training."""
    validation: float = 0.1
    """Share of the images of each folder held out for validation."""

    def build(self) -> Data:
        if not self.other:
            raise ConfigError("--data.other: name the folder of images of the second domain, as --data.path does that of the first")
        if self.size < 1:
            raise ConfigError(f"--data.size must be at least 1, not {self.size}")
        first, second = (self._folder(path) for path in (self.path, self.other))
        validation = Unpaired(first.validation, second.validation) if first.validation and second.validation else None
        problems = Problems()
        for part in (first, second):
            problems.include(part.problems)
        facts = {name: first.info[name] for name in ("image", "features")}
        facts |= {"training_examples": len(first.train), "other_examples": len(second.train)}
        return Data(Unpaired(first.train, second.train), validation, facts, problems=problems)

    def _folder(self, path: str) -> Data:
        settings = {"size": self.size, "crop_size": self.crop_size, "channels": self.channels, "validation": self.validation}
        return ImagesConfig(path=path, augment=Augment(flip=self.flip), **settings).build()  # type: ignore[arg-type]


class Unpaired(Dataset):
    """The images of one dataset in order, each with a random image of the other."""

    def __init__(self, first: Dataset, second: Dataset):
        self.first, self.second = first, second

    def __len__(self) -> int:
        return len(self.first)

    def batch(self, index: Tensor, key: Tensor) -> Batch:
        chosen = random.integers(random.fold(key, "other"), len(self.second))
        other = self.second.batch(chosen, random.fold(key, "second"))
        return {"image": self.first.batch(index, key)["image"], "other": other["image"]}

    def to(self, device: torch.device) -> Dataset:
        return Unpaired(self.first.to(device), self.second.to(device))

    @property
    def device(self) -> torch.device:
        return self.first.device
