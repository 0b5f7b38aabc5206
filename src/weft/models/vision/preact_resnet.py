"""Residual networks with pre-activation (He et al., 2016, arXiv:1603.05027), for small images: x + F(x) with nothing behind the sum.

Norm and relu come before each convolution, so that an example and its gradient go through all blocks unchanged beside the branches.
Shapes: B batch, C channels, H and W height and width, F features.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from weft.models.base import ModelConfig, check_sizes
from weft.models.vision.image_classifier import ImageClassifier, check_image, check_stages
from weft.nn.convolution.residual_blocks import batch_norm, conv


@dataclass(frozen=True, kw_only=True)
class PreActResNetConfig(ModelConfig):
    of_task = ("classes",)

    image: tuple[int, ...] = ()
    """Shape of an image, (channels, height, width); () takes it from the data."""
    classes: int = 0
    """Number of classes; 0 takes it from the data."""
    blocks: tuple[int, ...] = (2, 2, 2, 2)
    """Residual blocks of each stage; height and width are halved at the beginning of each but the first."""
    channels: tuple[int, ...] = (64, 128, 256, 512)
    """Channels of each stage."""

    def build(self) -> PreActResNet:
        return PreActResNet(self)


class PreActBlock(nn.Module):
    """shortcut(x) + conv(relu(norm(conv(relu(norm(x)))))); where shapes change a projection of what was normed."""

    def __init__(self, inputs: int, channels: int, stride: int):
        super().__init__()
        self.norm1, self.conv1 = batch_norm(inputs), conv(inputs, channels, 3, stride)
        self.norm2, self.conv2 = batch_norm(channels), conv(channels, channels, 3)
        self.projection = conv(inputs, channels, 1, stride) if stride > 1 or inputs != channels else None

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) -> (B, channels, H / stride, W / stride)."""
        active = F.relu(self.norm1(x))
        change: Tensor = self.conv2(F.relu(self.norm2(self.conv1(active))))
        return change + (x if self.projection is None else self.projection(active))


class PreActResNet(ImageClassifier):
    separable = False
    """Batch norm: an example's loss depends on its batch."""

    def __init__(self, config: PreActResNetConfig):
        super().__init__()
        c = self.config = config
        check_sizes(c, classes=1)
        check_image(c.image)
        check_stages(c.blocks, c.channels)
        self.stem = conv(c.image[0], c.channels[0], 3)
        self.stages = nn.ModuleList()
        inputs = c.channels[0]
        for stage, (number, channels) in enumerate(zip(c.blocks, c.channels, strict=True)):
            blocks = [PreActBlock(channels if n else inputs, channels, 2 if stage and not n else 1) for n in range(number)]
            self.stages.append(nn.Sequential(*blocks))
            inputs = channels
        self.norm = batch_norm(inputs)
        self.head = nn.Linear(inputs, c.classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def features(self, x: Tensor) -> Tensor:
        """x (B, ...) -> features (B, F): the mean over pixels of the last stage, normed."""
        x = self.stem(self.as_image(x))
        for stage in self.stages:
            x = stage(x)
        return F.relu(self.norm(x)).mean((2, 3))


TINY = PreActResNetConfig(blocks=(1, 1), channels=(4, 8))
PRESETS = {"tiny": TINY, "preact_resnet18": PreActResNetConfig(image=(3, 32, 32), classes=10)}
