"""Pairs of images: side by side in files of your own, or digits with their outlines.

Batch: source (B, C, S, S) and image (B, D, S, S), float32 in [0, 1]; of outlines also label (B,) int64.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from weft.core.errors import ConfigError, DataError, require
from weft.data.base import Batch, Data, DataConfig, Dataset, Problems, TensorDataset
from weft.data.images import augment
from weft.data.images.augment import Augment
from weft.data.images.digits import DigitsConfig
from weft.data.images.folder import SUFFIXES, eight_bits, open_image
from weft.data.images.pixels import ImagesConfig
from weft.data.io.archives import is_archive, read_members
from weft.data.io.files import locate, read_bytes, reason, show, walk
from weft.data.split import check_share, shuffled


@dataclass(frozen=True, kw_only=True)
class ImagePairsConfig(DataConfig):
    path: str = ""
    """A folder, or a .tar or .zip, of images each of which is two of equal size, side by side."""
    source: Literal["left", "right"] = "right"
    """The half that is the source."""
    size: int = 286
    """Side in pixels to which each half is scaled."""
    crop_size: int = 256
    """Side of the crop that is taken: at random in training, the centre in validation; 0 for no crop."""
    flip: float = 0.5
    """Probability of a horizontal flip of a pair in training."""
    validation: float = 0.15
    """Share of the pairs held out for validation."""

    def build(self) -> Data:
        check_share(self.validation)
        if self.size < 1 or not 0 <= self.crop_size <= self.size:
            raise ConfigError(f"--data.size must be at least 1 and --data.crop_size from 0 to it, not {self.size} and {self.crop_size}")
        if not 0.0 <= self.flip <= 1.0:
            raise ConfigError(f"--data.flip is a probability from 0 to 1, not {self.flip}")
        problems = Problems()
        pairs = torch.from_numpy(self._read(problems))  # (N, 6, size, size) bytes, source first
        order = torch.from_numpy(shuffled(len(pairs), "validation"))
        validation_count = round(len(pairs) * self.validation)
        side = self.crop_size or self.size
        transform = Augment(flip=self.flip)
        train, validation = (
            self._dataset(pairs[order[validation_count:]], transform),
            self._dataset(pairs[order[:validation_count]], None) if validation_count else None,
        )
        facts = {"source_image": (3, side, side), "image": (3, side, side), "training_examples": len(train)}
        return Data(train, validation, facts, problems=problems)

    def _dataset(self, pairs: Tensor, transform: Augment | None) -> Dataset:
        return TensorDataset({"pair": pairs}, SplitPair(self.crop_size, transform))

    def _read(self, problems: Problems) -> np.ndarray:
        source = locate(self.path)
        files = (
            read_members(source, SUFFIXES, problems)
            if is_archive(source)
            else [(p, read_bytes(p)) for p in walk(source, SUFFIXES, problems)]
        )
        pairs = [pair for path, content in files if (pair := self._pair(path, content, problems)) is not None]
        if not pairs:
            raise DataError(f"{show(self.path)}: holds no image that could be read; each must be two images side by side")
        return np.stack(pairs)

    def _pair(self, path: Path, content: bytes, problems: Problems) -> np.ndarray | None:
        """Both halves of a file, (6, size, size), the source first."""
        library, exif_transpose = require("PIL.Image", "images"), require("PIL.ImageOps", "images").exif_transpose
        try:
            with open_image(library, io.BytesIO(content)) as image:
                image = eight_bits(exif_transpose(image), library)
                half_width, height = image.width // 2, image.height
                if not half_width:
                    raise ValueError("one pixel wide, which has no halves")
                halves = [(0, 0, half_width, height), (image.width - half_width, 0, image.width, height)]
                boxes = halves if self.source == "left" else halves[::-1]
                square, rgb = (self.size, self.size), image.convert("RGB")
                resized = [np.asarray(rgb.resize(square, library.Resampling.BICUBIC, box=box)) for box in boxes]
        except Exception as error:  # decoders raise many kinds of exceptions on damaged files
            problems.add("images that cannot be read", f"{show(path)} ({reason(error)})")
            return None
        return np.concatenate(resized, axis=2).transpose(2, 0, 1)


@dataclass(frozen=True)
class SplitPair:
    """Split uint8 pairs into two float images in [0, 1], cropped and flipped together."""

    window: int
    transform: Augment | None

    def __call__(self, batch: Batch, key: Tensor) -> Batch:
        pair = batch["pair"]  # (B, 6, size, size)
        if self.transform:
            pair = augment.transform_geometry(pair, key, self.transform, self.window)
        elif self.window:
            pair = augment.centre_crop(pair, self.window)
        source, image = (pair.float() / 255).chunk(2, dim=1)
        return {"source": source, "image": image}


@dataclass(frozen=True, kw_only=True)
class OutlinesConfig(DataConfig):
    """Images and their outlines, which a model fills in."""

    path: str = ""
    """A folder of images, as of the images data; "" takes scikit-learn's digits."""
    size: int = 0
    """Side in pixels to which images of a folder are scaled; 0 leaves them."""
    coarse: int = 1
    """Outlines are drawn in squares of this many pixels, to reduce detail."""
    validation: float = 0.2
    """Share of the images held out for validation."""
    validate_on: Literal["train", "test"] = "train"
    """Validate on images held out from training, or on the test files of a folder."""

    def build(self) -> Data:
        if self.coarse < 1:
            raise ConfigError(f"--data.coarse must be at least 1, not {self.coarse}")
        inner = base_images(self.path, self.size, self.validation, self.validate_on).build()
        _, height, width = inner.info["image"]
        transform = Outlines(self.coarse)
        train, validation = (TransformedDataset(part, transform) if part else None for part in (inner.train, inner.validation))
        assert train is not None
        facts = {**inner.info, "source_image": (1, height, width)}
        return Data(train, validation, facts, inner.tokenizer, inner.problems)


def base_images(
    path: str, size: int, validation: float, validate_on: Literal["train", "test"], channels: Literal[0, 1, 3] = 1
) -> DataConfig:
    """Settings of the underlying images: of a folder, or scikit-learn's digits."""
    if path:
        return ImagesConfig(path=path, size=size, channels=channels, validation=validation, validate_on=validate_on)
    if size or validate_on == "test":
        raise ConfigError("--data.size and --data.validate_on are for a folder; name one with --data.path")
    return DigitsConfig(flat=False, validation=validation)


@dataclass(frozen=True)
class Outlines:
    coarse: int

    def __call__(self, batch: Batch, key: Tensor) -> Batch:
        return {**batch, "source": outlines(batch["image"], self.coarse)}


class TransformedDataset(Dataset):
    """A dataset with a transform of its batches."""

    def __init__(self, inner: Dataset, transform: Any):
        self.inner, self.transform = inner, transform

    def __len__(self) -> int:
        return len(self.inner)

    def batch(self, index: Tensor, key: Tensor) -> Batch:
        changed: Batch = self.transform(self.inner.batch(index, key), key)
        return changed

    def to(self, device: torch.device) -> Dataset:
        return TransformedDataset(self.inner.to(device), self.transform)

    @property
    def device(self) -> torch.device:
        return self.inner.device


def outlines(image: Tensor, coarse: int = 1) -> Tensor:
    """image (B, C, H, W) in [0, 1] -> 1 where its brightness crosses one half, else 0, (B, 1, H, W), in squares of `coarse` pixels."""
    grey = image.mean(1, keepdim=True)
    inside = (grey >= 0.5).float()
    eroded = -F.max_pool2d(-F.pad(inside, (1, 1, 1, 1)), 3, 1)  # pixels inside with all their neighbours
    edge = inside - eroded
    if coarse > 1:
        edge = F.interpolate(F.max_pool2d(edge, coarse, ceil_mode=True), scale_factor=coarse)[..., : image.size(2), : image.size(3)]
    return edge
