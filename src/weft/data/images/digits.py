"""Scikit-learn's digits: 1,797 handwritten digits of 8 by 8 pixels, on disk wherever scikit-learn is (UCI, Alpaydin & Kaynak, 1998).

Batch: image (B, 64) or (B, 1, 8, 8) float32 in [0, 1], or black and white where they are binarised; label (B,) int64, UNLABELLED
where the label is hidden.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from weft.core.errors import require
from weft.data.base import UNLABELLED, Batch, Data, DataConfig, Problems, TensorDataset
from weft.data.images.binarise import Binarise, binarise
from weft.data.split import hide_labels, hold_out, repeat_labelled
from weft.data.tokenizers.base import ClassNames

SIDE = 8


@dataclass(frozen=True, kw_only=True)
class DigitsConfig(DataConfig):
    file_source: ClassVar[str] = "images"

    validation: float = 0.2
    """Share of the digits held out for validation."""
    labelled: float = 1.0
    """Share of the training digits whose label is kept, spread evenly over the classes; validation keeps all."""
    repeat_labelled: int = 1
    """How often each labelled digit occurs in an epoch, where others are unlabelled, so that few labels are seen often."""
    binarise: Binarise = "none"
    """threshold: pixels are 1 where at least half bright, else 0; dynamic: 1 with their brightness as the chance, drawn anew each time."""
    flat: bool = True
    """Images as (B, 64); otherwise (B, 1, 8, 8)."""

    def build(self) -> Data:
        bunch: Any = require("sklearn.datasets", "images").load_digits()
        problems = Problems()
        train, validation_indices = hold_out(bunch.target, self.validation, problems)
        labels = hide_labels(bunch.target[train].astype(np.int64), self.labelled)
        chosen = repeat_labelled(labels, self.repeat_labelled)
        first = self._dataset(bunch.images[train][chosen], labels[chosen])
        second = self._dataset(bunch.images[validation_indices], bunch.target[validation_indices]) if len(validation_indices) else None
        info = {
            "features": SIDE * SIDE,
            "classes": 10,
            "image": (1, SIDE, SIDE),
            "training_examples": len(train),
            "validation_examples": len(validation_indices),
            "training_labels": int((labels != UNLABELLED).sum()),
        }
        return Data(first, second, info, ClassNames([str(name) for name in bunch.target_names]), problems)

    def _dataset(self, images: np.ndarray, labels: np.ndarray) -> TensorDataset:
        """images (N, 8, 8) from 0 to 16 and labels (N,)."""
        shape = (SIDE * SIDE,) if self.flat else (1, SIDE, SIDE)
        pixels = (torch.from_numpy(images).float() / 16).reshape(-1, *shape)
        transform = Binarised(self.binarise) if self.binarise != "none" else None
        return TensorDataset({"image": pixels, "label": torch.from_numpy(labels).long()}, transform)


@dataclass(frozen=True)
class Binarised:
    """The transform that binarises the images of a batch."""

    how: Binarise

    def __call__(self, batch: Batch, key: Tensor) -> Batch:
        return {**batch, "image": binarise(batch["image"], key, self.how)}
