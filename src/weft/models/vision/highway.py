"""Highway network of convolutions (Srivastava et al., 2015, arXiv:1505.00387): y = T(x) H(x) + (1 - T(x)) x, with a learned gate T.

A residual block is the case in which nothing of x is held back. The gate's bias begins negative, so that the network begins by
carrying its input through.
Shapes: B batch, C channels, H and W height and width, F features.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.models.base import ModelConfig, check_sizes
from weft.models.vision.image_classifier import ImageClassifier, check_image


@dataclass(frozen=True, kw_only=True)
class HighwayConfig(ModelConfig):
    of_task = ("classes",)

    image: tuple[int, ...] = ()
    """Shape of an image, (channels, height, width); () takes it from the data."""
    classes: int = 0
    """Number of classes; 0 takes it from the data."""
    layers: int = 19
    """Highway layers."""
    channels: int = 32
    """Channels of every layer."""
    pool_every: int = 6
    """Layers between which height and width are halved, while they have more than three pixels; 0 never."""
    gate_bias: float = -2.0
    """Bias that the gates begin with."""

    def build(self) -> Highway:
        return Highway(self)


class HighwayLayer(nn.Module):
    """x + T(x) (H(x) - x), with H a convolution and its relu, and T a convolution and its sigmoid."""

    def __init__(self, channels: int, gate_bias: float):
        super().__init__()
        self.transform = nn.Conv2d(channels, channels, 3, padding=1)
        self.gate = nn.Conv2d(channels, channels, 3, padding=1)
        nn.init.constant_(self.gate.bias, gate_bias)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) -> the same shape."""
        return torch.lerp(x, F.relu(self.transform(x)), torch.sigmoid(self.gate(x)))


class Highway(ImageClassifier):
    def __init__(self, config: HighwayConfig):
        super().__init__()
        c = self.config = config
        check_sizes(c, classes=1, layers=1, channels=1, pool_every=0)
        check_image(c.image)
        self.stem = nn.Conv2d(c.image[0], c.channels, 3, padding=1)
        self.layers = nn.ModuleList(HighwayLayer(c.channels, c.gate_bias) for _ in range(c.layers))
        self.head = nn.Linear(c.channels, c.classes)

    def features(self, x: Tensor) -> Tensor:
        """x (B, ...) -> features (B, F): the mean over pixels of the last layer."""
        x = F.relu(self.stem(self.as_image(x)))
        for number, layer in enumerate(self.layers):
            if number and self.config.pool_every and number % self.config.pool_every == 0 and min(x.shape[2:]) > 3:
                x = F.max_pool2d(x, 2)
            x = layer(x)
        return x.mean((2, 3))


TINY = HighwayConfig(layers=3, channels=4, pool_every=2)
