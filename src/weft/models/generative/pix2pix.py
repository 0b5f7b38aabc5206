"""Image-to-image translation by a conditional GAN, "pix2pix" (Isola et al., 2016, arXiv:1611.07004).

The generator is a U-Net (Ronneberger et al., 2015, arXiv:1505.04597): it halves the side down to a bottleneck and doubles it again, each
layer of the way up also seeing the layer of its size on the way down. The discriminator, PatchGAN, scores overlapping patches of source
and result together. Norms are over the places of one image (with the paper's batch of one, batch normalisation is the same).
Shapes: B batch, C channels of the source, D channels of the target, S side of an image, P side of the grid of patches.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from weft.core.errors import CapabilityError, ConfigError
from weft.models.base import ModelConfig, check_shares, check_sizes
from weft.nn.dropout import Dropout


@dataclass(frozen=True, kw_only=True)
class Pix2PixConfig(ModelConfig):
    source_image: tuple[int, ...] = ()
    """Shape of a source, (channels, side, side); () takes it from the data."""
    image: tuple[int, ...] = ()
    """Shape of a target, (channels, side, side); () takes it from the data."""
    width: int = 64
    """Channels of the layers next to the image; they double with each halving, up to eight times as many."""
    downsamplings: int = 0
    """Downsampling layers of the U-Net, each halving the side; 0 for as many as it takes down to one pixel."""
    dropout: float = 0.5
    """Share zeroed in the first three layers on the way up, in training; the generator has no other noise."""
    patch_layers: int = 3
    """Halvings of the discriminator: 3 score patches of 70 by 70 pixels, 1 of 16 by 16, 0 of one pixel."""

    def build(self) -> Pix2Pix:
        return Pix2Pix(self)


class Pix2Pix(nn.Module):
    def __init__(self, config: Pix2PixConfig):
        super().__init__()
        self.config = c = config
        check_sizes(c, width=1, downsamplings=0, patch_layers=0)
        check_shares(c, "dropout")
        if len(c.image) != 3 or c.source_image[1:] != c.image[1:] or c.image[1] != c.image[2]:
            raise ConfigError(f"--model.image and source_image must be square and of one side, not {c.image} and {c.source_image}")
        self.generator = UNet(c.source_image[0], c.image[0], c.width, c.downsamplings or most_halvings(c.image[1]), c.dropout, c.image[1])
        self.discriminator = PatchGAN(c.source_image[0] + c.image[0], c.width, c.patch_layers, c.image[1])

    def forward(self, source: Tensor) -> Tensor:
        """source (B, C, S, S) in [0, 1] -> target (B, D, S, S) in (0, 1)."""
        made: Tensor = self.generator(2 * source - 1)
        return (made.float() + 1) / 2

    def translate(self, x: Tensor, direction: str) -> Tensor:
        """x (B, C, S, S) in [0, 1] -> (B, D, S, S); only "a2b", as targets are not translated back."""
        if direction != "a2b":
            raise CapabilityError(f"{type(self).__name__} was trained to translate in one direction only, a2b, not {direction}")
        made: Tensor = self(x)
        return made

    def discriminate(self, source: Tensor, target: Tensor) -> Tensor:
        """source (B, C, S, S) and target (B, D, S, S) in [0, 1] -> log-odds that each patch is real, (B, P, P)."""
        odds: Tensor = self.discriminator(2 * torch.cat([source, target], dim=1) - 1).float()
        return odds


def most_halvings(side: int) -> int:
    """How often a side can be halved."""
    return (side & -side).bit_length() - 1


class UNet(nn.Module):
    def __init__(self, source: int, target: int, width: int, downsamplings: int, dropout: float, side: int):
        super().__init__()
        if not 1 <= downsamplings <= most_halvings(side):
            raise ConfigError(
                f"--model.downsamplings: a side of {side} can be halved 1 to {most_halvings(side)} times, not {downsamplings}"
            )
        widths = [width * min(2**i, 8) for i in range(downsamplings)]  # on the way down
        sizes = [side >> (i + 1) for i in range(downsamplings)]
        down = [nn.Sequential(nn.Conv2d(source, widths[0], 4, 2, 1))]
        for (first, second), size in zip(pairwise(widths), sizes[1:], strict=True):
            down.append(nn.Sequential(nn.LeakyReLU(0.2), nn.Conv2d(first, second, 4, 2, 1, bias=size == 1), *instance_norm(second, size)))
        up = []
        for level in reversed(range(1, downsamplings)):
            inputs = widths[level] * (1 if level == downsamplings - 1 else 2)
            drop = dropout if level > downsamplings - 4 and downsamplings > 3 else 0.0
            parts = (
                nn.ReLU(),
                nn.ConvTranspose2d(inputs, widths[level - 1], 4, 2, 1, bias=False),
                *instance_norm(widths[level - 1], sizes[level - 1]),
            )
            up.append(nn.Sequential(*parts, Dropout(drop)))
        inputs = widths[0] * (1 if downsamplings == 1 else 2)
        up.append(nn.Sequential(nn.ReLU(), nn.ConvTranspose2d(inputs, target, 4, 2, 1), nn.Tanh()))
        self.down, self.up = nn.ModuleList(down), nn.ModuleList(up)
        self.apply(draw_weights)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, S, S) -> (B, D, S, S) in (-1, 1)."""
        seen: list[Tensor] = []
        for layer in self.down:
            x = layer(x)
            seen.append(x)
        for number, layer in enumerate(self.up):
            x = layer(x if not number else torch.cat([x, seen[-1 - number]], dim=1))
        return x


class PatchGAN(nn.Module):
    """Scores overlapping patches, each by itself: convolutions only."""

    def __init__(self, channels: int, width: int, layers: int, side: int, norm: bool = True):
        super().__init__()
        if layers > max(0, most_halvings(side) - 2):
            raise ConfigError(
                f"--model.patch_layers: a side of {side} leaves room for at most {max(0, most_halvings(side) - 2)}, not {layers}"
            )
        widths = [width * min(2**i, 8) for i in range(layers + 1)]
        kernel, padding = (4, 1) if layers else (1, 0)
        stride = 2 if layers else 1
        parts: list[nn.Module] = [nn.Conv2d(channels, widths[0], kernel, stride, padding), nn.LeakyReLU(0.2)]
        for number, (first, second) in enumerate(pairwise(widths), 2):
            step = 2 if number <= layers else 1
            parts.append(nn.Conv2d(first, second, 4, step, 1, bias=not norm))
            parts += [nn.InstanceNorm2d(second, affine=True)] if norm else []
            parts.append(nn.LeakyReLU(0.2))
        parts.append(nn.Conv2d(widths[-1], 1, kernel, 1, padding))
        self.layers = nn.Sequential(*parts)
        self.apply(draw_weights)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C + D, S, S) in (-1, 1) -> log-odds (B, P, P)."""
        odds: Tensor = self.layers(x)
        return odds.squeeze(1)


def instance_norm(channels: int, side: int) -> list[nn.Module]:
    """Normalisation over the places of each channel of one image; none of a single place, which would leave zero."""
    return [nn.InstanceNorm2d(channels, affine=True)] if side > 1 else []


def draw_weights(module: nn.Module) -> None:
    if isinstance(module, nn.Conv2d | nn.ConvTranspose2d):
        nn.init.normal_(module.weight, 0.0, 0.02)
        if module.bias is not None:
            nn.init.zeros_(module.bias)


TINY = Pix2PixConfig(width=8)
"""Small enough for a test."""
PRESETS = {"tiny": TINY, "facades": Pix2PixConfig(source_image=(3, 256, 256), image=(3, 256, 256))}
