"""Residual blocks of convolutions and batch norms (He et al., 2015, arXiv:1512.03385), their plain counterparts, and three shortcuts.

Shapes: B batch, C channels, H and W height and width.
"""

from __future__ import annotations

from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

Shortcut = Literal["pad", "projection", "all_projections", "none"]
"""Around a block: where shapes change zeros for new channels (option A) or a projection (B); projections everywhere (C); nothing."""


def conv(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    """A convolution that keeps the sides but for its stride, without a bias, as a norm follows."""
    return nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)


def batch_norm(channels: int) -> nn.BatchNorm2d:
    """Batch norm (Ioffe & Szegedy, 2015) with a fixed momentum, so that it need not count its batches."""
    norm = nn.BatchNorm2d(channels)
    norm.num_batches_tracked = None
    return norm


class PadShortcut(nn.Module):
    """Option A: every stride-th pixel, and zeros for the channels that are new; it has no parameters.

    The zeros come behind the old channels, or on both sides of them, as in several published weights for CIFAR.
    """

    def __init__(self, inputs: int, outputs: int, stride: int, both_sides: bool = False):
        super().__init__()
        before = (outputs - inputs) // 2 if both_sides else 0
        self.stride, self.zeros = stride, (before, outputs - inputs - before)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) -> (B, outputs, H / stride, W / stride)."""
        return F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, *self.zeros))


class Projection(nn.Sequential):
    """Options B and C: a 1 x 1 convolution and a norm."""

    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__(conv(inputs, outputs, 1, stride), batch_norm(outputs))


def make_shortcut(kind: Shortcut, inputs: int, outputs: int, stride: int, both_sides: bool = False) -> nn.Module | None:
    """The shortcut of a block; None where there is none, as in a plain network."""
    if kind == "none":
        return None
    if kind == "all_projections" or (kind == "projection" and (stride > 1 or inputs != outputs)):
        return Projection(inputs, outputs, stride)
    if stride > 1 or inputs != outputs:
        return PadShortcut(inputs, outputs, stride, both_sides)
    return nn.Identity()


class BasicBlock(nn.Module):
    """relu(F(x) + shortcut(x)), where F is two 3 x 3 convolutions, each with its norm."""

    expansion = 1

    def __init__(self, inputs: int, channels: int, stride: int, shortcut: nn.Module | None):
        super().__init__()
        self.conv1, self.norm1 = conv(inputs, channels, 3, stride), batch_norm(channels)
        self.conv2, self.norm2 = conv(channels, channels, 3), batch_norm(channels)
        self.shortcut = shortcut

    @property
    def last_norm(self) -> nn.BatchNorm2d:
        return self.norm2

    def residual(self, x: Tensor) -> Tensor:
        """F(x): x (B, C, H, W) -> (B, channels, H / stride, W / stride)."""
        change: Tensor = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return change

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) -> (B, channels, H / stride, W / stride)."""
        change = self.residual(x)
        return F.relu(change if self.shortcut is None else change + self.shortcut(x))


class Bottleneck(nn.Module):
    """The same with F a 1 x 1 convolution to few channels, a 3 x 3 one there, and a 1 x 1 one to four times as many.

    stride_first: the stride is that of the first convolution, as in the paper; else of the 3 x 3 one, as in torchvision (version 1.5).
    """

    expansion = 4

    def __init__(self, inputs: int, channels: int, stride: int, shortcut: nn.Module | None, stride_first: bool = False):
        super().__init__()
        first, second = (stride, 1) if stride_first else (1, stride)
        self.conv1, self.norm1 = conv(inputs, channels, 1, first), batch_norm(channels)
        self.conv2, self.norm2 = conv(channels, channels, 3, second), batch_norm(channels)
        self.conv3, self.norm3 = conv(channels, 4 * channels, 1), batch_norm(4 * channels)
        self.shortcut = shortcut

    @property
    def last_norm(self) -> nn.BatchNorm2d:
        return self.norm3

    def residual(self, x: Tensor) -> Tensor:
        """F(x): x (B, C, H, W) -> (B, 4 * channels, H / stride, W / stride)."""
        x = F.relu(self.norm1(self.conv1(x)))
        change: Tensor = self.norm3(self.conv3(F.relu(self.norm2(self.conv2(x)))))
        return change

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) -> (B, 4 * channels, H / stride, W / stride)."""
        change = self.residual(x)
        return F.relu(change if self.shortcut is None else change + self.shortcut(x))
