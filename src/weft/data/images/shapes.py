"""Images of a few coloured shapes on a noisy ground, and their boxes: object detection that needs no file.

Batch: image (B, 3, S, S) float32 in [0, 1]; boxes (B, M, 4) as centre x, centre y, width and height in shares of the side; label (B, M)
int64, UNLABELLED where there is no further object.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from weft.core import random
from weft.core.errors import ConfigError
from weft.data.base import UNLABELLED, Data, DataConfig, TensorDataset
from weft.data.split import check_share
from weft.data.tokenizers.base import ClassNames

KINDS = ("circle", "square", "triangle")
SMALLEST, LARGEST = 0.2, 0.45
"""Sides of shapes, in shares of an image's side."""
OVERLAP, TRIES = 0.25, 20
"""Most that two boxes may overlap, in shares of both together, and how often a place is looked for."""


@dataclass(frozen=True, kw_only=True)
class ShapesConfig(DataConfig):
    side: int = 48
    """Height and width of an image in pixels."""
    objects: int = 4
    """Most shapes of an image; every number from 1 is as likely."""
    examples: int = 4000
    """Images, a share of which is held out."""
    validation: float = 0.1
    """Share of the images held out for validation."""
    noise: float = 0.1
    """Standard deviation of the noise of each pixel."""
    seed: int = 0
    """Of the images."""

    def build(self) -> Data:
        check_share(self.validation)
        if not 16 <= self.side <= 512 or not 1 <= self.objects <= 16 or not 2 <= self.examples <= 100_000 or not 0 <= self.noise <= 1:
            raise ConfigError(
                "--data.side must be from 16 to 512, --data.objects from 1 to 16, --data.examples from 2 to 100,000 and --data.noise from "
                f"0 to 1, not {self.side}, {self.objects}, {self.examples} and {self.noise}"
            )
        generator = np.random.Generator(np.random.PCG64(random.seed_of(self.seed, "shapes")))
        made = [drawn(generator, self.side, self.objects, self.noise) for _ in range(self.examples)]
        image, boxes, label = (torch.from_numpy(np.stack(column)) for column in zip(*made, strict=True))
        tensors = {"image": image, "boxes": boxes, "label": label}
        held = round(self.examples * self.validation)
        first, second = ({name: part[some] for name, part in tensors.items()} for some in (slice(held, None), slice(held)))
        info = {"image": (3, self.side, self.side), "classes": len(KINDS), "training_examples": self.examples - held}
        validation = TensorDataset(second) if held else None
        return Data(TensorDataset(first), validation, info, ClassNames(list(KINDS)))


def drawn(generator: np.random.Generator, side: int, most: int, noise: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """An image (3, S, S), boxes (M, 4) and kinds (M,)."""
    image = np.broadcast_to(generator.uniform(0.2, 0.5, (3, 1, 1)), (3, side, side)).copy()
    boxes, label = np.zeros((most, 4), np.float32), np.full(most, UNLABELLED, np.int64)
    placed: list[np.ndarray] = []
    grid = (np.arange(side) + 0.5) / side
    for number in range(int(generator.integers(1, most + 1))):
        box = place(generator, placed)
        if box is None:
            break
        kind = int(generator.integers(len(KINDS)))
        x, y = (grid[None, :] - box[0]) / box[2], (grid[:, None] - box[1]) / box[3]  # from -1/2 to 1/2 inside
        inside = (abs(x) <= 0.5) & (abs(y) <= 0.5)
        if kind == 0:
            inside = x**2 + y**2 <= 0.25
        elif kind == 2:
            inside &= 2 * abs(x) <= y + 0.5
        colour = generator.uniform(0, 1, 3)
        colour[int(generator.integers(3))] = generator.choice([0.0, 1.0])  # never like the ground
        image[:, inside] = colour[:, None]
        boxes[number], label[number] = box, kind
        placed.append(box)
    image += generator.normal(0, noise, image.shape)
    return image.clip(0, 1).astype(np.float32), boxes, label


def place(generator: np.random.Generator, others: list[np.ndarray]) -> np.ndarray | None:
    """A box that hides none of the others; None where there is no room."""
    for _ in range(TRIES):
        size = generator.uniform(SMALLEST, LARGEST)
        centre = generator.uniform(size / 2, 1 - size / 2, 2)
        box = np.array([*centre, size, size], np.float32)
        if all(overlap(box, other) <= OVERLAP for other in others):
            return box
    return None


def overlap(one: np.ndarray, other: np.ndarray) -> float:
    """Intersection over union of two boxes (4,)."""
    low = np.maximum(one[:2] - one[2:] / 2, other[:2] - other[2:] / 2)
    high = np.minimum(one[:2] + one[2:] / 2, other[:2] + other[2:] / 2)
    shared = float(np.prod((high - low).clip(0)))
    return shared / (float(one[2] * one[3] + other[2] * other[3]) - shared)
