"""The class of an image file."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np
import torch

from weft.core.errors import DataError
from weft.data.base import Batch, Dataset, Problems, TensorDataset, with_path
from weft.data.images.folder import MODES, SUFFIXES, decode_each
from weft.data.images.pixels import ImagesConfig
from weft.data.io.files import show, walk
from weft.data.tokenizers.base import ClassNames
from weft.inference.predict.base import (
    Items,
    Result,
    Row,
    Shown,
    Trained,
    class_columns,
    class_result,
    ranked,
    shares_of,
)
from weft.inference.predict.files import FilePredictor


class ImageClasses(FilePredictor):
    """The class of an image."""

    kind = "class"
    asked = ("picture.png",)
    most_items = 64
    window = 256
    files = SUFFIXES
    noun = "image"
    names = ("file", "path", "image", "filename")

    def __init__(self, trained: Trained):
        super().__init__(trained)
        self.source = images_for(trained)
        known = self.tokenizer.names if isinstance(self.tokenizer, ClassNames) else []
        number: int = getattr(trained.recipe.model, "classes", 0) or len(known)
        self.classes = [*known, *map(str, range(len(known), number))]

    @property
    def columns(self) -> list[str]:
        return class_columns(self.classes)

    def example(self, row: Row, columns: Sequence[str]) -> Any:
        found = super().example(row, columns)
        return io.BytesIO(found) if isinstance(found, bytes) else found

    def items(self, examples: Sequence[Any], problems: Problems) -> Items:
        """Those that can be read and have the same size."""
        opened = decode_each(examples, self.source.decode_options)
        shape = next((image.shape for image in opened if isinstance(image, np.ndarray)), (1, 1, 1))
        bad = {index: reason for index, image in enumerate(opened) if (reason := why(image, shape))}
        owner = [index for index in range(len(opened)) if index not in bad]
        pixels = np.stack([opened[index] for index in owner]) if owner else np.zeros((0, *shape), np.uint8)
        image = torch.from_numpy(np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)))  # (B, C, H, W)
        data: Dataset = TensorDataset({"image": image}, self.source.transform(image))
        return Items(data, owner, [1] * len(owner), [None] * len(owner), bad)

    def compute(self, batch: Batch) -> list[list[float]]:
        return shares_of(self.model.classify(batch["image"]))

    def result(self, example: Any, found: list[tuple[Any, Any]]) -> Result:
        [(_, shares)] = found
        return class_result(self.classes, shares)

    def typed(self, words: Sequence[str]) -> list[Row]:
        problems = Problems()
        files = [file for word in words for file in image_files(Path(word).expanduser(), problems)]
        if not files:
            raise DataError(f"{show(words[0])}: the folder holds no image ({', '.join(SUFFIXES)})")
        return [Row({"file": str(file)}, show(file)) for file in files]

    def shown(self, result: Result) -> Shown:
        return ranked(result, most=5)


def why(image: Any, shape: tuple[int, ...]) -> str:
    """Why an image cannot go with the others; empty where it can."""
    if not isinstance(image, np.ndarray):
        return f"the image cannot be read: {image}"
    return "" if image.shape == shape else f"the image is {image.shape[1]}x{image.shape[0]}, others are {shape[1]}x{shape[0]}"


def image_files(path: Path, problems: Problems) -> list[Path]:
    """A file, or the images of a folder."""
    return walk(path, SUFFIXES, problems) if path.is_dir() else [path]


def images_for(trained: Trained) -> ImagesConfig:
    """The recipe's settings of images; what they leave to the files is what the model was built for."""
    source = with_path(trained.recipe.data)
    assert isinstance(source, ImagesConfig)
    model: Any = trained.recipe.model
    channels, height, width = getattr(model, "image", ()) or shape_of(model.features)
    size = source.size or (height if height == width and not source.crop_size else 0)
    return replace(source, size=size, channels=channels if channels in MODES else 0)  # type: ignore[arg-type]


def shape_of(features: int) -> tuple[int, int, int]:
    """The square image that has so many numbers: a number is never a square and three times a square at once."""
    channels = 1 if isqrt(features) ** 2 == features else 3
    side = isqrt(features // channels)
    return channels, side, side
