"""PixelCNN (van den Oord et al., 2016, arXiv:1601.06759): the probability of an image as a product over its pixels in reading order.

p(x) is the product of p(x_i | x before i), where a pixel has one of L levels and the colours of a pixel follow each other. All
factors are found in one pass of masked convolutions; a sample takes one pass for each pixel and colour. It is a distribution
over discrete images, no flow: there is no latent. A stack of masked convolutions never sees some pixels above and to the right
(the blind spot), which gated_pixelcnn.py mends.

Shapes: B batch, L levels, C colours, H height, W width, D channels.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.core import random
from weft.core.errors import CapabilityError, ConfigError
from weft.models.base import ModelConfig, as_examples, check_shares, check_sizes
from weft.nn.convolution.masked_convolution import MaskedConv2d
from weft.nn.dropout import Dropout


@dataclass(frozen=True, kw_only=True)
class PixelCNNConfig(ModelConfig):
    image: tuple[int, ...] = ()
    """Shape of an image, (colours, height, width); () takes it from the data."""
    levels: int = 2
    """Levels L of a pixel between 0 and 1: 2 for black and white, 256 for bytes."""
    layers: int = 7
    """Residual blocks."""
    width: int = 64
    """Channels D inside a block; twice as many between blocks."""
    first_kernel: int = 7
    """Side of the first layer's kernel."""
    kernel: int = 3
    """Side of the kernels in the blocks."""
    dropout: float = 0.0
    """Share of each block zeroed in training."""

    def build(self) -> PixelModel:
        return PixelCNN(self)


class PixelModel(nn.Module):
    """What a model that gives logits to every pixel from those before it can do."""

    def __init__(self, image: tuple[int, ...], levels: int):
        super().__init__()
        self.image, self.levels = image, levels

    def logits(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) in [0, 1] -> (B, L, C, H, W), each from the pixels and colours before it alone."""
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        """x (B, ...) -> (B, L, C, H, W)."""
        return self.logits(as_examples(self, x, self.image))

    def log_prob(self, x: Tensor) -> Tensor:
        """x (B, ...) in [0, 1] of L levels -> log p(x) (B,)."""
        level = (as_examples(self, x, self.image) * (self.levels - 1)).round().long()
        return -F.cross_entropy(at_least_single(self(x)), level, reduction="none").flatten(1).sum(1)

    def sample(self, key: Tensor) -> Tensor:
        """key (B,) -> one image per key, (B, C, H, W), a pixel and colour at a time."""
        nothing = torch.zeros(len(key), *self.image, device=key.device, dtype=next(self.parameters()).dtype)
        return self._fill(nothing, nothing.bool(), key)

    def inpaint(self, x: Tensor, known: Tensor, key: Tensor | None = None) -> Tensor:
        """x (B, ...), given where known (B, ...) is true, a beginning in reading order -> the rest drawn, in the shape of x."""
        key = random.keys(0, torch.arange(len(x))).to(x.device) if key is None else key
        known = as_examples(self, known, self.image)
        pixels = known.all(1).flatten(1)  # (B, H W)
        if bool((pixels[:, 1:] > pixels[:, :-1]).any()):
            raise CapabilityError(
                f"{type(self).__name__} draws pixels in reading order from those before them, so only the end of an image, "
                "such as its lower half, can be missing"
            )
        return self._fill(as_examples(self, x, self.image), known, key).view(x.shape)

    @torch.no_grad()
    def _fill(self, x: Tensor, known: Tensor, key: Tensor) -> Tensor:
        """x and known (B, C, H, W), key (B,) -> x with what is not known drawn, a pixel and colour at a time."""
        chance = random.uniform(random.fold(key, "pixel"), *self.image)
        x = torch.where(known, x, 0.0)
        for row, column in (~known).any(0).any(0).nonzero().tolist():
            for colour in range(self.image[0]):  # rows below change nothing, so they are left out
                p = self.logits(x[:, :, : row + 1])[:, :, colour, row, column]
                p = at_least_single(p).softmax(1).cumsum(1)
                level = (p[:, :-1] <= chance[:, colour, row, column, None]).sum(1)
                given = known[:, colour, row, column]
                x[:, colour, row, column] = torch.where(given, x[:, colour, row, column], level / (self.levels - 1))
        return x


def at_least_single(logits: Tensor) -> Tensor:
    """In float32 where they are of fewer bits, which sums over pixels would lose."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


class Block(nn.Module):
    """x + 1x1(masked(1x1(x))), a ReLU before each."""

    def __init__(self, width: int, kernel: int, colours: int, dropout: float):
        super().__init__()
        self.narrow = MaskedConv2d(2 * width, width, (1, 1), "B", colours)
        self.masked = MaskedConv2d(width, width, (kernel, kernel), "B", colours)
        self.wide = MaskedConv2d(width, 2 * width, (1, 1), "B", colours)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, 2 D, H, W) -> the same shape."""
        inner = self.masked(self.narrow(x.relu()).relu())
        out: Tensor = x + self.wide(self.dropout(inner.relu()))
        return out


class PixelCNN(PixelModel):
    def __init__(self, config: PixelCNNConfig):
        check(config)
        super().__init__(config.image, config.levels)
        c, colours = config, config.image[0]
        self.config = config
        self.inward = MaskedConv2d(colours, 2 * c.width, (c.first_kernel, c.first_kernel), "A", colours)
        self.blocks = nn.Sequential(*(Block(c.width, c.kernel, colours, c.dropout) for _ in range(c.layers)))
        self.outward = outward(2 * c.width, config)

    def logits(self, x: Tensor) -> Tensor:
        found: Tensor = self.outward(self.blocks(self.inward(2 * x - 1)))
        return found.view(len(x), self.levels, *x.shape[1:])


def outward(width: int, config: PixelCNNConfig) -> nn.Module:
    """From features (B, width, H, W) to logits (B, L C, H, W), the colours of a level side by side."""
    colours = config.image[0]
    inner = MaskedConv2d(width, width, (1, 1), "B", colours)
    last = MaskedConv2d(width, config.levels * colours, (1, 1), "B", colours)
    return nn.Sequential(nn.ReLU(), inner, nn.ReLU(), last)


def check(config: PixelCNNConfig) -> None:
    """Refuse what cannot be, for both kinds of PixelCNN."""
    check_sizes(config, levels=2, layers=0, width=1, first_kernel=3, kernel=1)
    check_shares(config, "dropout")
    if len(config.image) != 3 or min(config.image) < 1:
        raise ConfigError(f"--model.image must be colours, height and width, not {config.image}; leave it out to take it from the data")
    if config.width % config.image[0]:
        raise ConfigError(f"--model.width {config.width} must be a multiple of the {config.image[0]} colours")
    for name in ("first_kernel", "kernel"):
        if not getattr(config, name) % 2:
            raise ConfigError(f"--model.{name} must be odd, so that a kernel has a middle, not {getattr(config, name)}")


TINY = PixelCNNConfig(layers=1, width=8)
"""Small enough for a test."""
PRESETS = {"tiny": TINY, "mnist": PixelCNNConfig(image=(1, 28, 28), layers=15, width=64)}
