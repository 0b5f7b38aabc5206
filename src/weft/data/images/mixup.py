"""CutMix and mixup: training images mixed from two, with their labels in proportion.

Half of them get a rectangle of the other image (CutMix: Yun et al., 2019, arXiv:1905.04899), half are blended with it
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


class MixupDataset(Dataset):
    """The images of a dataset, some of them mixed with another one, unless either is unlabelled."""

    def __init__(self, images: Dataset, chance: float):
        self.images, self.chance = images, chance

    def __len__(self) -> int:
        return len(self.images)

    def batch(self, index: Tensor, key: Tensor) -> Batch:
        own = self.images.batch(index, key)
        key = random.fold(key, "mixing")
        other = self.images.batch(random.integers(random.fold(key, "other"), len(self)), random.fold(key, "its noise"))
        weight = mixing_weights(key, *own["image"].shape[-2:])  # (B, 1, H, W)
        labelled = (own["label"] != UNLABELLED) & (other["label"] != UNLABELLED)
        mixed = (random.uniform(random.fold(key, "whether")) < self.chance) & labelled
        weight = weight.masked_fill(~mixed[:, None, None, None], 1.0)
        image = weight * own["image"] + (1 - weight) * other["image"]
        return {**own, "image": image, "other_label": other["label"], "share": weight.mean((1, 2, 3))}

    def to(self, device: torch.device) -> Dataset:
        return MixupDataset(self.images.to(device), self.chance)

    @property
    def device(self) -> torch.device:
        return self.images.device


def mixing_weights(key: Tensor, height: int, width: int) -> Tensor:
    """key (B,) -> (B, 1, H, W): the weight of the original image per pixel, either 0 in a rectangle and 1 outside or constant."""
    share = random.uniform(random.fold(key, "share"))  # (B,)
    centre = random.uniform(random.fold(key, "middle"), 2)  # (B, 2)
    half = (1 - share).sqrt() / 2
    inside = [
        ((torch.arange(side, device=key.device) + 0.5) / side - centre[:, axis, None]).abs() < half[:, None]  # (B, side)
        for axis, side in enumerate((height, width))
    ]
    outside = ~(inside[0][:, :, None] & inside[1][:, None, :])  # (B, H, W)
    is_cutmix = random.uniform(random.fold(key, "pasted")) < 0.5
    return torch.where(is_cutmix[:, None, None], outside.float(), share[:, None, None]).unsqueeze(1)
