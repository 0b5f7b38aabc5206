"""Densely connected networks (Huang et al., 2016, arXiv:1608.06993): each layer reads the maps of all before it in its block.

A block that starts with k0 channels has k0 + l k behind its l-th layer; a transition shrinks the channels and halves the sides.
Shapes: B batch, C channels, H and W height and width, F features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.core.errors import ConfigError
from weft.models.base import ModelConfig, check_shares, check_sizes
from weft.models.vision.image_classifier import ImageClassifier, check_image
from weft.nn.convolution.residual_blocks import batch_norm, conv
from weft.nn.dropout import Dropout


@dataclass(frozen=True, kw_only=True)
class DenseNetConfig(ModelConfig):
    of_task = ("classes",)

    image: tuple[int, ...] = ()
    """Shape of an image, (channels, height, width); () takes it from the data."""
    classes: int = 0
    """Number of classes; 0 takes it from the data."""
    layers: tuple[int, ...] = (6, 12, 24, 16)
    """Dense layers of each block."""
    growth: int = 32
    """Growth rate k: channels that each layer adds."""
    channels: int = 64
    """Channels k0 of the stem."""
    bottleneck: int = 4
    """Each layer's 1 x 1 convolution makes this many times k channels before the 3 x 3 one; 0 leaves it out."""
    compression: float = 0.5
    """Share of the channels that a transition keeps."""
    stem: Literal["imagenet", "cifar"] = "imagenet"
    """Before the blocks: a 7 x 7 convolution and pooling, each halving the sides, or a 3 x 3 one."""
    dropout: float = 0.0
    """Share of each layer's new maps zeroed in training."""

    def build(self) -> DenseNet:
        return DenseNet(self)


class DenseLayer(nn.Module):
    """norm, relu, 1 x 1 convolution, norm, relu, 3 x 3 convolution: k new channels behind those it reads."""

    def __init__(self, inputs: int, growth: int, bottleneck: int, dropout: float):
        super().__init__()
        narrow = bottleneck * growth or inputs
        self.norm1 = batch_norm(inputs)
        self.conv1 = conv(inputs, narrow, 1) if bottleneck else None
        self.norm2 = batch_norm(narrow) if bottleneck else None
        self.conv2 = conv(narrow, growth, 3)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) -> (B, C + k, H, W)."""
        new = F.relu(self.norm1(x))
        if self.conv1 is not None and self.norm2 is not None:
            new = F.relu(self.norm2(self.conv1(new)))
        return torch.cat((x, self.dropout(self.conv2(new))), 1)


class Transition(nn.Module):
    """norm, relu, 1 x 1 convolution, mean over 2 x 2 pixels."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.norm, self.conv = batch_norm(inputs), conv(inputs, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) -> (B, outputs, H / 2, W / 2)."""
        return F.avg_pool2d(self.conv(F.relu(self.norm(x))), 2)


class DenseNet(ImageClassifier):
    separable = False
    """Batch norm: an example's loss depends on its batch."""

    def __init__(self, config: DenseNetConfig):
        super().__init__()
        c = self.config = config
        self._check()
        small = c.stem == "cifar"
        self.stem = conv(c.image[0], c.channels, 3 if small else 7, 1 if small else 2)
        self.stem_norm = None if small else batch_norm(c.channels)
        self.blocks, self.transitions = nn.ModuleList(), nn.ModuleList()
        channels = c.channels
        for block, layers in enumerate(c.layers):
            if block:
                kept = int(channels * c.compression)
                self.transitions.append(Transition(channels, kept))
                channels = kept
            self.blocks.append(
                nn.Sequential(*(DenseLayer(channels + n * c.growth, c.growth, c.bottleneck, c.dropout) for n in range(layers)))
            )
            channels += layers * c.growth
        self.norm = batch_norm(channels)
        self.head = nn.Linear(channels, c.classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight)
        nn.init.zeros_(self.head.bias)

    def _check(self) -> None:
        c = self.config
        check_sizes(c, classes=1, growth=1, channels=1, bottleneck=0)
        check_shares(c, "dropout")
        check_image(c.image)
        if not c.layers or min(c.layers) < 1:
            raise ConfigError(f"--model.layers must be numbers of at least 1, not {c.layers}")
        if not 0.0 < c.compression <= 1.0:
            raise ConfigError(f"--model.compression is a share above 0 and up to 1, not {c.compression}")

    def pyramid(self, x: Tensor) -> list[Tensor]:
        """x (B, ...) -> the maps behind each block, from fine to coarse."""
        x = self.stem(self.as_image(x))
        if self.stem_norm is not None:
            x = F.max_pool2d(F.relu(self.stem_norm(x)), 3, stride=2, padding=1)
        maps = []
        for number, block in enumerate(self.blocks):
            x = block(self.transitions[number - 1](x) if number else x)
            maps.append(x)
        return maps

    def features(self, x: Tensor) -> Tensor:
        """x (B, ...) -> features (B, F): the mean over pixels of the last maps, normed."""
        return F.relu(self.norm(self.pyramid(x)[-1])).mean((2, 3))


def cifar(depth: int, growth: int, *, bottleneck: bool = True) -> DenseNetConfig:
    """DenseNet-BC, or without bottlenecks and compression, of three equal blocks for images of 32 by 32 pixels."""
    per_block, rest = divmod(depth - 4, 6 if bottleneck else 3)
    if rest:
        raise ConfigError(f"a DenseNet for CIFAR has {6 if bottleneck else 3} n + 4 layers, not {depth}")
    return DenseNetConfig(
        layers=3 * (per_block,),
        growth=growth,
        channels=2 * growth if bottleneck else 16,
        bottleneck=4 if bottleneck else 0,
        compression=0.5 if bottleneck else 1.0,
        stem="cifar",
    )


TINY = DenseNetConfig(layers=(1, 1), growth=4, channels=4, stem="cifar")
PRESETS = {
    "tiny": TINY,
    "densenet121": DenseNetConfig(image=(3, 224, 224), classes=1000),
    "densenet169": DenseNetConfig(image=(3, 224, 224), classes=1000, layers=(6, 12, 32, 32)),
    "densenet201": DenseNetConfig(image=(3, 224, 224), classes=1000, layers=(6, 12, 48, 32)),
    "densenet100_cifar": cifar(100, 12),
}
