"""Other tones of training images, of the kinds that AutoAugment found to help (Cubuk et al., 2018, arXiv:1805.09501).

All ways are computed for all images, and one is chosen for each by its own key: nothing is decided on the host.
Shapes: B batch, C channels, H and W height and width.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from weft.core import random


def solarised(image: Tensor, strength: Tensor) -> Tensor:
    """What is brighter than a threshold as a negative; by the greatest strength all of it."""
    return torch.where(image < 1 - strength, image, 1 - image)


def posterised(image: Tensor, strength: Tensor) -> Tensor:
    """Only so many different values: 16 down to 3."""
    steps = 15 - (13 * strength).round()
    return (image * steps).round() / steps


def stretched(image: Tensor, strength: Tensor) -> Tensor:
    """Each channel from black to white."""
    low, high = image.amin((2, 3), keepdim=True), image.amax((2, 3), keepdim=True)
    return (image - low) / (high - low).clamp(min=1 / 255)


def equalised(image: Tensor, strength: Tensor) -> Tensor:
    """Each channel with as many dark pixels as bright ones: a value becomes the share of pixels that are not brighter."""
    levels = (image * 255).round().long().flatten(2)  # (B, C, H * W)
    counts = torch.zeros(*levels.shape[:2], 256, device=image.device).scatter_add(2, levels, torch.ones_like(levels, dtype=torch.float32))
    return (counts.cumsum(2) / levels.size(2)).gather(2, levels).view(image.shape)


def sharpened(image: Tensor, strength: Tensor) -> Tensor:
    """Away from the mean of the neighbours, or towards it: sharper or softer."""
    soft = F.avg_pool2d(image, 3, stride=1, padding=1, count_include_pad=False)
    return torch.lerp(soft, image, 2 * strength).clamp(0.0, 1.0)


WAYS: tuple[Callable[[Tensor, Tensor], Tensor], ...] = (solarised, posterised, stretched, equalised, sharpened)


def retone(image: Tensor, key: Tensor, chance: float) -> Tensor:
    """image (B, C, H, W) in [0, 1], of which some have their tones changed in one of the WAYS."""
    key = random.fold(key, "tones")
    way = random.integers(random.fold(key, "way"), len(WAYS))
    way = torch.where(random.uniform(random.fold(key, "whether")) < chance, way, len(WAYS))[:, None, None, None]
    strength = random.uniform(random.fold(key, "strength"))[:, None, None, None]
    for number, change in enumerate(WAYS):
        image = torch.where(way == number, change(image, strength), image)
    return image
