"""RealNVP (Dinh et al., 2017, arXiv:1605.08803) on images: couplings of residual networks at several scales.

At each scale three couplings keep every other pixel, as on a checkerboard; then squares of 2 by 2 pixels become channels and three
couplings keep half of the channels; then half of the channels are done, and the rest goes on at half the size. The last scale
has four checkerboards. Networks normalise within an image, never over a batch.

Shapes: B batch, X numbers of an image, C channels, H height, W width, D width of a network.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from weft.core.errors import ConfigError
from weft.models.base import ModelConfig, check_shares, check_sizes
from weft.models.generative.flow import Flow, chain
from weft.nn.bijections import AffineCoupling, Bijection, Chain, ElementwiseAffine, Squeeze, checkerboard, half_mask, no_change
from weft.nn.dropout import Dropout


@dataclass(frozen=True, kw_only=True)
class RealNVPImagesConfig(ModelConfig):
    image: tuple[int, ...] = ()
    """Shape of an image, (channels, height, width); () takes it from the data."""
    scales: int = 2
    """Number of scales; both sides must be divisible by 2 so many times, less one."""
    blocks: int = 4
    """Residual blocks of each coupling's network."""
    width: int = 64
    """Channels D of these blocks at the first scale; twice as many after each squeeze."""
    dropout: float = 0.0
    """Share of each block zeroed in training."""
    margin: float = 0.05
    """A logit comes first, of 1 - 2 margin of the range [0, 1]."""

    def build(self) -> RealNVPImages:
        return RealNVPImages(self)


class Block(nn.Module):
    """x + conv(relu(norm(conv(relu(norm(x))))))."""

    def __init__(self, width: int, dropout: float):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(1, width), nn.GroupNorm(1, width)
        self.conv1, self.conv2 = (nn.Conv2d(width, width, 3, padding=1) for _ in range(2))
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, D, H, W) -> the same shape."""
        inner = self.conv1(self.norm1(x).relu())
        out: Tensor = x + self.conv2(self.dropout(self.norm2(inner).relu()))
        return out


class Network(nn.Module):
    """From what a coupling keeps to how it changes the rest; at the beginning it changes nothing."""

    def __init__(self, channels: int, width: int, blocks: int, dropout: float):
        super().__init__()
        self.inward = nn.Conv2d(channels, width, 3, padding=1)
        self.blocks = nn.Sequential(*(Block(width, dropout) for _ in range(blocks)))
        self.norm = nn.GroupNorm(1, width)
        self.outward = nn.Conv2d(width, 2 * channels, 1)
        nn.init.zeros_(self.outward.weight)
        nn.init.zeros_(self.outward.bias)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) -> (B, 2 C, H, W)."""
        out: Tensor = self.outward(self.norm(self.blocks(self.inward(x))).relu())
        return out


class MultiScale(Bijection):
    """Stages on images, between which half of the channels leave: (B, C, H, W) -> (B, X)."""

    def __init__(self, stages: list[Bijection], sizes: list[tuple[int, ...]]):
        """The last size is that of what the last stage gives, the others those of what leaves before it."""
        super().__init__()
        self.stages, self.sizes = nn.ModuleList(stages), sizes

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        total, done = no_change(x), []
        for number, stage in enumerate(self.stages):
            x, change = stage(x)
            total = total + change
            if number < len(self.stages) - 1:
                x, leaves = x.chunk(2, dim=1)
                done.append(leaves.flatten(1))
        return torch.cat([*done, x.flatten(1)], dim=1), total

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        parts = torch.split(z, [math.prod(size) for size in self.sizes], dim=1)
        *left, x = (part.view(-1, *size) for part, size in zip(parts, self.sizes, strict=True))
        total = no_change(z)
        for stage in reversed(self.stages):
            x, change = stage.inverse(x)  # type: ignore[operator]
            total = total + change
            x = torch.cat([x, left.pop()], dim=1) if left else x
        return x, total


class RealNVPImages(Flow):
    def __init__(self, config: RealNVPImagesConfig):
        check(config)
        stages: list[Bijection] = []
        sizes: list[tuple[int, ...]] = []
        (channels, height, width), c = config.image, config
        for scale in range(c.scales):
            last = scale == c.scales - 1
            layers = [self._board(c, (channels, height, width), number) for number in range(4 if last else 3)]
            if not last:
                channels, height, width = 4 * channels, height // 2, width // 2
                layers += [Squeeze(), *(self._channels(c, channels, scale, number) for number in range(3))]
                channels //= 2
            stages.append(Chain(layers))
            sizes.append((channels, height, width))
        super().__init__(chain([MultiScale(stages, sizes)], c.margin), c.image, c.image)
        self.config = config

    @staticmethod
    def _board(c: RealNVPImagesConfig, shape: tuple[int, int, int], number: int) -> Bijection:
        channels, height, width = shape
        scale = round(math.log2(c.image[1] // height))
        network = Network(channels, c.width * 2**scale, c.blocks, c.dropout)
        return Chain([AffineCoupling(checkerboard(height, width, number % 2), network), ElementwiseAffine(channels)])

    @staticmethod
    def _channels(c: RealNVPImagesConfig, channels: int, scale: int, number: int) -> Bijection:
        network = Network(channels, c.width * 2 ** (scale + 1), c.blocks, c.dropout)
        return Chain([AffineCoupling(half_mask(channels, number % 2)[:, None, None], network), ElementwiseAffine(channels)])


def check(config: RealNVPImagesConfig) -> None:
    check_sizes(config, scales=1, blocks=0, width=1)
    check_shares(config, "dropout")
    if len(config.image) != 3 or min(config.image) < 1:
        raise ConfigError(f"--model.image must be channels, height and width, not {config.image}; leave it out to take it from the data")
    parts = 2 ** (config.scales - 1)
    if config.image[1] % parts or config.image[2] % parts:
        raise ConfigError(
            f"--model.scales {config.scales} needs sides divisible by {parts}, but images are {config.image[2]}x{config.image[1]}"
        )


TINY = RealNVPImagesConfig(scales=2, blocks=1, width=8)
"""Small enough for a test."""
PRESETS = {"tiny": TINY, "cifar10": RealNVPImagesConfig(image=(3, 32, 32), scales=3, blocks=8, width=64)}
