"""Small residual network that names the class of an image (He et al., 2016, arXiv:1603.05027), for images of few pixels.

The means of its last maps serve as features by which sets of images are compared.
Shapes: B batch, F features, C classes.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from weft.models.base import ModelConfig, check_shares, check_sizes
from weft.nn.convolution.residual_convolution import Down
from weft.nn.dropout import Dropout


@dataclass(frozen=True, kw_only=True)
class ConvNetConfig(ModelConfig):
    image: tuple[int, ...] = ()
    """Shape of an image, (channels, height, width); () takes it from the data."""
    classes: int = 0
    """Number of classes C; 0 takes it from the data."""
    channels: tuple[int, ...] = (32, 64, 128)
    """Channels at each resolution, from the image's own, each half the one before; the last is the number F of features."""
    blocks: int = 1
    """Residual blocks at each resolution."""
    normed: bool = False
    """Norms inside the residual blocks: for more than a few of them."""
    dropout: float = 0.0
    """Share of the features zeroed in training."""

    def build(self) -> ConvNet:
        return ConvNet(self)


class ConvNet(nn.Module):
    def __init__(self, config: ConvNetConfig):
        super().__init__()
        self.config = config
        check_sizes(config, classes=1)
        check_shares(config, "dropout")
        self.down = Down(config.image, config.channels or (0,), config.blocks, config.normed)
        self.dropout = Dropout(config.dropout)
        self.head = nn.Linear(config.channels[-1], config.classes)

    def features(self, x: Tensor) -> Tensor:
        """x (B, ...) -> features (B, F)."""
        maps: Tensor = self.down(x.reshape(len(x), *self.config.image))
        return maps.mean((2, 3))

    def classify_features(self, features: Tensor) -> Tensor:
        """features (B, F) -> class logits (B, C)."""
        logits: Tensor = self.head(self.dropout(features))
        return logits

    def classify(self, x: Tensor) -> Tensor:
        """x (B, ...) -> class logits (B, C)."""
        return self.classify_features(self.features(x))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, ...) -> class logits (B, C)."""
        return self.classify(x)


TINY = ConvNetConfig(channels=(4, 8))
"""Small enough for a test."""
PRESETS = {"tiny": TINY, "mnist": ConvNetConfig(image=(1, 28, 28), classes=10)}
