"""No data: examples that are nothing but their noise, for objectives that know a target density instead.

Batch: only key (B,), as every batch has it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from weft.core.errors import ConfigError
from weft.data.base import Batch, Data, DataConfig, Dataset


@dataclass(frozen=True, kw_only=True)
class DrawsConfig(DataConfig):
    examples: int = 100_000
    """Draws that make an epoch; all differ in any case, also from one epoch to the next."""
    held: int = 4096
    """Draws on which is validated, always the same."""
    features: int = 2
    """Numbers X of an example that a model is to draw."""

    def build(self) -> Data:
        for name in ("examples", "held", "features"):
            if getattr(self, name) < 1:
                raise ConfigError(f"--data.{name} must be at least 1, not {getattr(self, name)}")
        return Data(Keys(self.examples), Keys(self.held), {"features": self.features})


class Keys(Dataset):
    """So many examples without content."""

    def __init__(self, size: int, device: torch.device | None = None):
        self.size = size
        self._device = device or torch.device("cpu")

    def __len__(self) -> int:
        return self.size

    def batch(self, index: Tensor, key: Tensor) -> Batch:
        return {"key": key}

    def to(self, device: torch.device) -> Dataset:
        return Keys(self.size, device)

    @property
    def device(self) -> torch.device:
        return self._device
