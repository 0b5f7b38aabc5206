"""Convolutions with residual connections (He et al., 2016, arXiv:1603.05027): images to ever smaller maps of features, and back.

Few layers need no norms, which changed nothing there where measured; many do not learn without. They go over channels, in groups, so
that no image knows of the others in its batch (Wu & He, 2018, arXiv:1803.08494).
Shapes: B batch, C channels, H and W height and width.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch.nn.functional as F
from torch import Tensor, nn

from weft.core.errors import ConfigError

GROUPS = 8
"""Groups of channels that a norm is taken over, where so many divide them."""


class Residual(nn.Module):
    """x + a small change of it, by two convolutions."""

    def __init__(self, channels: int, normed: bool = False):
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)
        self.norms = nn.ModuleList(nn.GroupNorm(math.gcd(GROUPS, channels), channels) if normed else nn.Identity() for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) -> the same shape."""
        before, between = self.norms
        change: Tensor = self.second(F.silu(between(self.first(F.silu(before(x))))))
        return x + change


class Down(nn.Module):
    """An image to maps of features, halved in height and width between resolutions."""

    def __init__(self, image: Sequence[int], channels: Sequence[int], blocks: int, normed: bool = False):
        super().__init__()
        self.shape = smallest(image, channels, blocks)
        self.first = nn.Conv2d(image[0], channels[0], 3, padding=1)
        layers: list[nn.Module] = [Residual(channels[0], normed) for _ in range(blocks)]
        for larger, smaller in pairwise(channels):
            layers += [nn.Conv2d(larger, smaller, 3, stride=2, padding=1), *(Residual(smaller, normed) for _ in range(blocks))]
        self.layers = nn.Sequential(*layers)

    def forward(self, image: Tensor) -> Tensor:
        """image (B, C, H, W) -> maps (B, *self.shape)."""
        return F.silu(self.layers(self.first(image)))


class Up(nn.Module):
    """Maps of features to an image, doubled in height and width between resolutions: `Down` in reverse."""

    def __init__(self, image: Sequence[int], channels: Sequence[int], blocks: int):
        super().__init__()
        self.shape = smallest(image, channels, blocks)
        layers: list[nn.Module] = [Residual(channels[-1]) for _ in range(blocks)]
        for smaller, larger in pairwise(reversed(channels)):
            layers += [nn.ConvTranspose2d(smaller, larger, 4, stride=2, padding=1), *(Residual(larger) for _ in range(blocks))]
        self.layers = nn.Sequential(*layers)
        self.last = nn.Conv2d(channels[0], image[0], 3, padding=1)

    def forward(self, maps: Tensor) -> Tensor:
        """maps (B, *self.shape) -> image (B, C, H, W)."""
        image: Tensor = self.last(F.silu(self.layers(maps)))
        return image


def smallest(image: Sequence[int], channels: Sequence[int], blocks: int) -> tuple[int, int, int]:
    """Shape of the smallest maps of an image (channels, height, width); refuses sides that cannot be halved so often."""
    if len(image) != 3:
        raise ConfigError(f"--model.channels is for images, but the data has the shape {tuple(image)}; leave it empty for perceptrons")
    if min(channels) < 1 or blocks < 0:
        raise ConfigError(f"--model.channels must be at least 1 each and --model.blocks not negative, not {tuple(channels)} and {blocks}")
    scale = 2 ** (len(channels) - 1)
    if image[1] % scale or image[2] % scale:
        raise ConfigError(
            f"--model.channels has {len(channels)} resolutions, so the sides of an image must be divisible by {scale}, "
            f"but they are {image[1]} and {image[2]}; scale them with --data.size, or give fewer channels"
        )
    return channels[-1], image[1] // scale, image[2] // scale
