"""Two-dimensional toy distributions, drawn from a seed: two moons, a ring of Gaussians, a checkerboard, two circles.

Batch: point (B, 2) float32, label (B,) int64: the moon, Gaussian, square or circle that a point comes from.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from weft.core import random
from weft.core.errors import ConfigError
from weft.data.base import Data, DataConfig, TensorDataset

SQUARES = [(x, y) for x in range(4) for y in range(4) if (x + y) % 2 == 0]
"""Black squares of the checkerboard, which lies between -2 and 2."""


@dataclass(frozen=True, kw_only=True)
class ToysConfig(DataConfig):
    shape: Literal["moons", "ring", "checkerboard", "circles"] = "moons"
    """Distribution of the points."""
    examples: int = 10_000
    """Points to train on; a fifth as many others are made for validation."""
    spread: float = 0.1
    """Standard deviation around moons and circles, and of each Gaussian of the ring."""
    modes: int = 8
    """Gaussians on the ring."""
    radius: float = 2.0
    """Of the ring."""
    seed: int = 0
    """Of the points."""

    def build(self) -> Data:
        if self.examples < 5 or self.modes < 1:
            raise ConfigError(f"data: at least 5 --data.examples and 1 --data.modes are needed, not {self.examples} and {self.modes}")
        if not 0 <= self.spread < math.inf or not 0 <= self.radius < math.inf:
            raise ConfigError(f"--data.spread and --data.radius must not be negative, not {self.spread} and {self.radius}")
        validation_count = self.examples // 5
        key = random.keys(random.seed_of(self.seed, "toys", self.shape), torch.arange(validation_count + self.examples))
        point, label = self.points(key)
        first, second = (
            TensorDataset({"point": point[part], "label": label[part]}) for part in (slice(validation_count, None), slice(validation_count))
        )
        facts: dict[str, Any] = {"features": 2, "training_examples": self.examples, "validation_examples": validation_count}
        if self.shape == "ring":
            facts |= {"centres": tuple(self.centres().flatten().tolist()), "spread": self.spread}
        return Data(first, second, facts)

    def centres(self) -> Tensor:
        """Means of the ring's Gaussians, (modes, 2)."""
        return self.radius * on_circle(2 * math.pi * torch.arange(self.modes) / self.modes)

    def points(self, key: Tensor) -> tuple[Tensor, Tensor]:
        """key (B,) -> one point of each, (B, 2), and the label of its component, (B,)."""
        noise = self.spread * random.normal(random.fold(key, "spread"), 2)
        position = random.uniform(random.fold(key, "place"), 2)
        if self.shape == "ring":
            label = random.integers(random.fold(key, "mode"), self.modes)
            return self.centres()[label] + noise, label
        if self.shape == "checkerboard":
            label = random.integers(random.fold(key, "square"), len(SQUARES))
            return torch.tensor(SQUARES)[label] + position - 2, label
        label = random.integers(random.fold(key, "curve"), 2)
        curve = (moon if self.shape == "moons" else circle)(position[:, 0], label)
        return curve + noise, label


def on_circle(angle: Tensor) -> Tensor:
    return torch.stack([angle.cos(), angle.sin()], dim=-1)


def moon(position: Tensor, label: Tensor) -> Tensor:
    """The upper half of a circle, or the lower half of one to its right: position (B,) in [0, 1) -> (B, 2)."""
    arc = on_circle(math.pi * position)
    return torch.where(label[:, None] == 0, arc, torch.tensor([1.0, 0.5]) - arc)


def circle(position: Tensor, label: Tensor) -> Tensor:
    """A circle of radius 1 or 2: position (B,) in [0, 1) -> (B, 2)."""
    return (1.0 + label[:, None]) * on_circle(2 * math.pi * position)
