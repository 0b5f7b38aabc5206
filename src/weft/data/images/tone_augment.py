"""Tone augmentations of AutoAugment: solarise, posterise, autocontrast, equalise, sharpness (Cubuk et al., 2018, arXiv:1805.09501).

All operations are computed for all images, and one is chosen for each by its key, without a host sync.
Shapes: B batch, C channels, H and W height and width.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from weft.core import random


def solarised(image: Tensor, strength: Tensor) -> Tensor:
    """Invert pixels above a threshold; all of them at full strength."""
    return torch.where(image < 1 - strength, image, 1 - image)


def posterised(image: Tensor, strength: Tensor) -> Tensor:
    """Quantise to 16 down to 3 values."""
    steps = 15 - (13 * strength).round()
    return (image * steps).round() / steps


def stretched(image: Tensor, strength: Tensor) -> Tensor:
    """Autocontrast: stretch each channel to [0, 1]."""
    low, high = image.amin((2, 3), keepdim=True), image.amax((2, 3), keepdim=True)
    return (image - low) / (high - low).clamp(min=1 / 255)


def equalised(image: Tensor, strength: Tensor) -> Tensor:
    """Histogram equalisation of each channel: a value becomes the share of pixels that are not brighter."""
    levels = (image * 255).round().long().flatten(2)  # (B, C, H * W)
    counts = torch.zeros(*levels.shape[:2], 256, device=image.device).scatter_add(2, levels, torch.ones_like(levels, dtype=torch.float32))
    return (counts.cumsum(2) / levels.size(2)).gather(2, levels).view(image.shape)


def sharpened(image: Tensor, strength: Tensor) -> Tensor:
    """Sharpen or blur: extrapolate from, or interpolate to, the mean of the neighbours."""
    soft = F.avg_pool2d(image, 3, stride=1, padding=1, count_include_pad=False)
    return torch.lerp(soft, image, 2 * strength).clamp(0.0, 1.0)


OPERATIONS: tuple[Callable[[Tensor, Tensor], Tensor], ...] = (solarised, posterised, stretched, equalised, sharpened)


def augment_tones(image: Tensor, key: Tensor, chance: float) -> Tensor:
    """image (B, C, H, W) in [0, 1], with one of the OPERATIONS applied to some."""
    key = random.fold(key, "tones")
    choice = random.integers(random.fold(key, "way"), len(OPERATIONS))
    choice = torch.where(random.uniform(random.fold(key, "whether")) < chance, choice, len(OPERATIONS))[:, None, None, None]
    strength = random.uniform(random.fold(key, "strength"))[:, None, None, None]
    for number, operation in enumerate(OPERATIONS):
        image = torch.where(choice == number, operation(image, strength), image)
    return image
