"""Binary patterns for associative memory: random ones, or handwritten digits, class after class.

Validation has the same patterns, each several times, so that corruption by the example's key differs.
Batch: image (B, X) of 0 and 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from weft.core import random
from weft.core.errors import ConfigError, require
from weft.data.base import Data, DataConfig, TensorDataset


@dataclass(frozen=True, kw_only=True)
class PatternsConfig(DataConfig):
    kind: Literal["random", "digits"] = "random"
    """random: every unit is 0 or 1 with equal chances; digits: scikit-learn's, 8 by 8 pixels in black and white, class after class."""
    patterns: int = 20
    """Number of patterns."""
    units: int = 400
    """Size X of a random pattern."""
    copies: int = 1
    """How often each pattern occurs in validation."""
    seed: int = 0
    """Seed of random patterns."""

    def build(self) -> Data:
        for name in ("patterns", "units", "copies"):
            if getattr(self, name) < 1:
                raise ConfigError(f"--data.{name} must be at least 1, not {getattr(self, name)}")
        patterns = self._random() if self.kind == "random" else self._digits()
        info: dict[str, Any] = {
            "features": patterns.size(1),
            "training_examples": len(patterns),
            "validation_examples": len(patterns) * self.copies,
        }
        if self.kind == "digits":
            info["image"] = (1, 8, 8)
        return Data(TensorDataset({"image": patterns}), TensorDataset({"image": patterns.repeat(self.copies, 1)}), info)

    def _random(self) -> Tensor:
        key = random.keys(random.seed_of(self.seed, "patterns"), torch.arange(self.patterns))
        return (random.uniform(key, self.units) < 0.5).float()

    def _digits(self) -> Tensor:
        """The first digit of every class, then the second, and so on."""
        bunch: Any = require("sklearn.datasets", "images").load_digits()
        indices_by_class = [np.flatnonzero(bunch.target == label) for label in range(10)]
        max_patterns = 10 * min(map(len, indices_by_class))
        if self.patterns > max_patterns:
            raise ConfigError(f"--data.patterns must be at most {max_patterns} for digits, not {self.patterns}")
        chosen = [indices_by_class[i % 10][i // 10] for i in range(self.patterns)]
        return torch.from_numpy(bunch.images[chosen] >= 8).flatten(1).float()
