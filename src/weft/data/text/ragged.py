"""Ragged rows, concatenated in one tensor and read as a padded matrix."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


class Ragged:
    """values (M,), of which row i has sizes[i]; `rows` returns some of them padded to the longest of all with `fill`."""

    def __init__(self, values: Tensor, sizes: Tensor, fill: float):
        self.values, self.sizes, self.fill = values, sizes, fill
        self.longest = max(1, int(sizes.max())) if len(sizes) else 1
        self.starts = sizes.cumsum(0) - sizes
        self._windows = F.pad(values, (0, self.longest)).unfold(0, self.longest, 1)  # (M + 1, longest), a view

    def __len__(self) -> int:
        return len(self.sizes)

    def rows(self, index: Tensor) -> Tensor:
        """index (B,) -> (B, longest)."""
        inside = torch.arange(self.longest, device=index.device) < self.sizes.index_select(0, index)[:, None]
        return self._windows.index_select(0, self.starts.index_select(0, index)).masked_fill(~inside, self.fill)

    def to(self, device: torch.device) -> Ragged:
        return Ragged(self.values.to(device), self.sizes.to(device), self.fill)
