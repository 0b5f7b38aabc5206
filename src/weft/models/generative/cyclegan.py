"""Image translation between two domains without pairs, CycleGAN (Zhu et al., 2017, arXiv:1703.10593).

Two generators translate from domain a to b and from b to a, and a discriminator in each domain tells real images from translated
ones. A generator is a small residual network: convolutions that halve the side (twice), residual blocks, convolutions that double it
again, with norms over one image.
Shapes: B batch, C channels, S side of an image, P side of the grid of patches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from weft.core.errors import ConfigError
from weft.models.base import ModelConfig, check_sizes
from weft.models.generative.pix2pix import PatchGAN, draw_weights, instance_norm


@dataclass(frozen=True, kw_only=True)
class CycleGANConfig(ModelConfig):
    image: tuple[int, ...] = ()
    """Shape of an image of either domain, (channels, side, side); () takes it from the data."""
    width: int = 64
    """Channels of the layers next to the image; they double with each halving."""
    downsamplings: int = 2
    """Strided convolutions of a generator before its residual blocks, each halving the side."""
    blocks: int = 6
    """Residual blocks of each generator."""
    patch_layers: int = 2
    """Halvings of each discriminator."""
    patch_norm: bool = True
    """Whether the discriminators are normalised over each image, which hides from them how bright or coloured all of it is."""

    def build(self) -> CycleGAN:
        return CycleGAN(self)


class CycleGAN(nn.Module):
    """`generators.a2b` and `.b2a` between domains a and b, `discriminators.a` and `.b`."""

    def __init__(self, config: CycleGANConfig):
        super().__init__()
        self.config = c = config
        check_sizes(c, width=1, downsamplings=0, blocks=0, patch_layers=0)
        if len(c.image) != 3 or c.image[1] != c.image[2] or c.image[1] < 8:
            raise ConfigError(f"--model.image must be square with a side of at least 8, not {c.image}; choose with --data.size")
        if c.image[1] % 2**c.downsamplings or c.image[1] >> c.downsamplings < 2:
            raise ConfigError(f"--model.downsamplings: a side of {c.image[1]} cannot be halved {c.downsamplings} times and leave 2 pixels")
        channels, side = c.image[0], c.image[1]
        self.generators = nn.ModuleDict({name: Residual(channels, c.width, c.downsamplings, c.blocks, side) for name in ("a2b", "b2a")})
        self.discriminators = nn.ModuleDict({name: PatchGAN(channels, c.width, c.patch_layers, side, c.patch_norm) for name in ("a", "b")})

    def translate(self, x: Tensor, direction: str) -> Tensor:
        """x (B, C, S, S) in [0, 1], direction "a2b" or "b2a" -> the same in the other domain."""
        made: Tensor = self.generators[direction](2 * x - 1)
        return (made.float() + 1) / 2

    def discriminate(self, x: Tensor, domain: str) -> Tensor:
        """x (B, C, S, S) in [0, 1], domain "a" or "b" -> scores of patches (B, P, P)."""
        score: Tensor = self.discriminators[domain](2 * x - 1).float()
        return score

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, S, S) in [0, 1] of the first domain -> the second."""
        return self.translate(x, "a2b")


class Residual(nn.Module):
    def __init__(self, channels: int, width: int, downsamplings: int, blocks: int, side: int):
        super().__init__()
        parts = convolution(channels, width, 7, 1, side)
        for level in range(downsamplings):
            parts += convolution(width << level, width << (level + 1), 3, 2, side >> (level + 1))
        parts += [Block(width << downsamplings, side >> downsamplings) for _ in range(blocks)]
        for level in reversed(range(downsamplings)):
            parts += transposed(width << (level + 1), width << level, side >> level)
        self.network = nn.Sequential(*parts, nn.Conv2d(width, channels, 7, 1, 3, padding_mode="reflect"), nn.Tanh())
        self.apply(draw_weights)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, S, S) -> (B, C, S, S) in (-1, 1)."""
        made: Tensor = self.network(x)
        return made


class Block(nn.Module):
    def __init__(self, width: int, side: int):
        super().__init__()
        self.first = nn.Sequential(*convolution(width, width, 3, 1, side))
        self.second = nn.Sequential(nn.Conv2d(width, width, 3, 1, 1, bias=side == 1), *instance_norm(width, side))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, width, s, s) -> the same shape."""
        changed: Tensor = self.second(self.first(x))
        return x + changed


def convolution(first: int, second: int, kernel: int, stride: int, side: int) -> list[nn.Module]:
    """A convolution to images of that side, its norm and a ReLU."""
    mode: Literal["reflect", "zeros"] = "reflect" if kernel // 2 < side else "zeros"
    return [
        nn.Conv2d(first, second, kernel, stride, kernel // 2, bias=side == 1, padding_mode=mode),
        *instance_norm(second, side),
        nn.ReLU(),
    ]


def transposed(first: int, second: int, side: int) -> list[nn.Module]:
    """A transposed convolution that doubles images to that side, its norm and a ReLU."""
    return [nn.ConvTranspose2d(first, second, 4, 2, 1, bias=False), *instance_norm(second, side), nn.ReLU()]


TINY = CycleGANConfig(width=4, blocks=1, patch_layers=1)
"""Small enough for a test."""
PRESETS = {"tiny": TINY, "mnist": CycleGANConfig(image=(3, 32, 32), width=32, downsamplings=1, blocks=3, patch_norm=False)}
