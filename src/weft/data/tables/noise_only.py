"""Examples that consist of a noise key only, for objectives with a known target density.

Batch: only key (B,), as every batch has it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from weft.core.errors import ConfigError
from weft.data.base import Batch, Data, DataConfig, Dataset


@dataclass(frozen=True, kw_only=True)
class NoiseOnlyConfig(DataConfig):
    examples: int = 100_000
    """Draws per epoch; all differ, also between epochs."""
    validation_examples: int = 4096
    """Draws that validation uses, always the same."""
    features: int = 2
    """Numbers X of an example that a model is to draw."""

    def build(self) -> Data:
        for name in ("examples", "validation_examples", "features"):
            if getattr(self, name) < 1:
                raise ConfigError(f"--data.{name} must be at least 1, not {getattr(self, name)}")
        return Data(NoiseOnly(self.examples), NoiseOnly(self.validation_examples), {"features": self.features})


class NoiseOnly(Dataset):
    """A dataset of keys without content."""

    def __init__(self, size: int, device: torch.device | None = None):
        self.size = size
        self._device = device or torch.device("cpu")

    def __len__(self) -> int:
        return self.size

    def batch(self, index: Tensor, key: Tensor) -> Batch:
        return {"key": key}

    def to(self, device: torch.device) -> Dataset:
        return NoiseOnly(self.size, device)

    @property
    def device(self) -> torch.device:
        return self._device
