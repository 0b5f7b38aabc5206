"""Training images made of two, of which each gives its share of the class.

Half of them get a rectangle of the other image (CutMix: Yun et al., 2019, arXiv:1905.04899), half let all of it shine through
(mixup: Zhang et al., 2017, arXiv:1710.09412). The other image is drawn from the whole training set by the example's own key, so
the result does not depend on how a batch was cut.

Batch: that of the images, and other_label (B,) int64 and share (B,) float32, how much of an example is of its own class.
Shapes: B batch, C channels, H and W height and width.
"""

from __future__ import annotations

import torch
from torch import Tensor

from weft.core import random
from weft.data.base import UNLABELLED, Batch, Dataset


class Mixed(Dataset):
    """The images of a dataset, some of them mixed with another one; those without a class, or mixed with such, stay as they are."""

    def __init__(self, images: Dataset, chance: float):
        self.images, self.chance = images, chance

    def __len__(self) -> int:
        return len(self.images)

    def batch(self, index: Tensor, key: Tensor) -> Batch:
        own = self.images.batch(index, key)
        key = random.fold(key, "mixing")
        other = self.images.batch(random.integers(random.fold(key, "other"), len(self)), random.fold(key, "its noise"))
        weight = weights(key, *own["image"].shape[-2:])  # (B, 1, H, W)
        known = (own["label"] != UNLABELLED) & (other["label"] != UNLABELLED)
        mixed = (random.uniform(random.fold(key, "whether")) < self.chance) & known
        weight = weight.masked_fill(~mixed[:, None, None, None], 1.0)
        image = weight * own["image"] + (1 - weight) * other["image"]
        return {**own, "image": image, "other_label": other["label"], "share": weight.mean((1, 2, 3))}

    def to(self, device: torch.device) -> Dataset:
        return Mixed(self.images.to(device), self.chance)

    @property
    def device(self) -> torch.device:
        return self.images.device


def weights(key: Tensor, height: int, width: int) -> Tensor:
    """key (B,) -> (B, 1, H, W): how much of each pixel stays, either 0 in a rectangle and 1 outside or the same everywhere."""
    kept = random.uniform(random.fold(key, "share"))  # (B,)
    middle = random.uniform(random.fold(key, "middle"), 2)  # (B, 2)
    half = (1 - kept).sqrt() / 2
    inside = [
        ((torch.arange(side, device=key.device) + 0.5) / side - middle[:, axis, None]).abs() < half[:, None]  # (B, side)
        for axis, side in enumerate((height, width))
    ]
    cut = ~(inside[0][:, :, None] & inside[1][:, None, :])  # (B, H, W)
    pasted = random.uniform(random.fold(key, "pasted")) < 0.5
    return torch.where(pasted[:, None, None], cut.float(), kept[:, None, None]).unsqueeze(1)
