"""Residual networks (He et al., 2015, arXiv:1512.03385), for photographs and for CIFAR's small images, and their plain counterparts.

Shapes: B batch, C channels, H and W height and width, F features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from weft.core.errors import ConfigError
from weft.models.base import ModelConfig, check_sizes
from weft.models.vision.image_classifier import ImageClassifier, check_image, check_stages
from weft.nn.convolution.residual_blocks import BasicBlock, Bottleneck, Shortcut, batch_norm, conv, make_shortcut


@dataclass(frozen=True, kw_only=True)
class ResNetConfig(ModelConfig):
    of_task = ("classes",)

    image: tuple[int, ...] = ()
    """Shape of an image, (channels, height, width); () takes it from the data. Any other sides can be read, too."""
    classes: int = 0
    """Number of classes; 0 takes it from the data."""
    blocks: tuple[int, ...] = (2, 2, 2, 2)
    """Residual blocks of each stage; height and width are halved at the beginning of each but the first."""
    channels: tuple[int, ...] = (64, 128, 256, 512)
    """Channels of each stage; of a bottleneck those of its 3 x 3 convolution, a quarter of its outputs."""
    block: Literal["basic", "bottleneck"] = "basic"
    """Two 3 x 3 convolutions, or a 3 x 3 one between two of 1 x 1."""
    stem: Literal["imagenet", "cifar"] = "imagenet"
    """Before the stages: a 7 x 7 convolution and pooling, each halving the sides, or a 3 x 3 one."""
    shortcut: Shortcut = "projection"
    """Around a block: zeros (A) or a projection (B) where shapes change, projections everywhere (C), none in a plain network."""
    pad_both_sides: bool = False
    """Of shortcut pad: zeros on both sides of the old channels, as in several published weights for CIFAR, not behind them."""
    stride_first: bool = False
    """Of bottlenecks: the 1 x 1 convolution has the stride, as in the paper, not the 3 x 3 one, as in torchvision."""
    zero_init: bool = False
    """The last norm of each residual block begins with 0, so that the block begins as its shortcut (Goyal et al., 2017)."""

    def build(self) -> ResNet:
        return ResNet(self)


class ResNet(ImageClassifier):
    """Stages of residual blocks, the mean over pixels, and a linear head."""

    separable = False
    """Batch norm: an example's loss depends on its batch."""

    def __init__(self, config: ResNetConfig):
        super().__init__()
        c = self.config = config
        self._check()
        first = c.channels[0]
        self.stem = nn.Sequential(conv(c.image[0], first, 3) if c.stem == "cifar" else conv(c.image[0], first, 7, 2), batch_norm(first))
        self.stages = nn.ModuleList()
        inputs = first
        for stage, (number, channels) in enumerate(zip(c.blocks, c.channels, strict=True)):
            outputs = channels * self.expansion
            blocks = [self._block(outputs if n else inputs, channels, 2 if stage and not n else 1) for n in range(number)]
            self.stages.append(nn.Sequential(*blocks))
            inputs = outputs
        self.head = nn.Linear(inputs, c.classes)
        self.reset_parameters()

    @property
    def expansion(self) -> int:
        return Bottleneck.expansion if self.config.block == "bottleneck" else BasicBlock.expansion

    def _block(self, inputs: int, channels: int, stride: int) -> nn.Module:
        c = self.config
        shortcut = make_shortcut(c.shortcut, inputs, channels * self.expansion, stride, c.pad_both_sides)
        if c.block == "bottleneck":
            return Bottleneck(inputs, channels, stride, shortcut, c.stride_first)
        return BasicBlock(inputs, channels, stride, shortcut)

    def _check(self) -> None:
        c = self.config
        check_sizes(c, classes=1)
        check_image(c.image)
        check_stages(c.blocks, c.channels)
        if c.shortcut == "pad" and sorted(c.channels) != list(c.channels):
            raise ConfigError(f"--model.shortcut pad needs --model.channels that never fall, not {c.channels}")

    def reset_parameters(self) -> None:
        """Convolutions normal with the variance 2 / fan-out (He et al., 2015, arXiv:1502.01852), norms 1 and 0."""
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(module, (BasicBlock, Bottleneck)) and self.config.zero_init:
                nn.init.zeros_(module.last_norm.weight)

    def pyramid(self, x: Tensor) -> list[Tensor]:
        """x (B, C, H, W) -> the maps behind each stage, from fine to coarse (C2 to C5 of a network with four)."""
        x = F.relu(self.stem(self.as_image(x)))
        if self.config.stem == "imagenet":
            x = F.max_pool2d(x, 3, stride=2, padding=1)
        maps = []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        return maps

    def features(self, x: Tensor) -> Tensor:
        """x (B, ...) -> features (B, F): the mean over pixels of the last stage."""
        return self.pyramid(x)[-1].mean((2, 3))


def cifar(layers: int, shortcut: Shortcut = "pad") -> ResNetConfig:
    """A network of 6 n + 2 layers for images of 32 by 32 pixels, as in section 4.2 of the paper."""
    if layers % 6 != 2:
        raise ConfigError(f"a ResNet for CIFAR has 6 n + 2 layers, such as 20, 56 or 110, not {layers}")
    return ResNetConfig(blocks=3 * ((layers - 2) // 6,), channels=(16, 32, 64), stem="cifar", shortcut=shortcut)


IMAGENET = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
"""Blocks of each stage by the number of layers; from 50 on they are bottlenecks."""
PRESETS = {
    "tiny": ResNetConfig(blocks=(1, 1), channels=(4, 8), stem="cifar"),
    **{
        f"resnet{layers}": ResNetConfig(image=(3, 224, 224), classes=1000, blocks=blocks, block="bottleneck" if layers >= 50 else "basic")
        for layers, blocks in IMAGENET.items()
    },
    **{f"resnet{layers}_cifar": cifar(layers) for layers in (20, 32, 44, 56, 110, 1202)},
}
TINY = PRESETS["tiny"]
