"""Convolutions that see only what comes before a pixel, row by row and colour by colour (van den Oord et al., 2016, arXiv:1601.06759).

Shapes: B batch, C channels, H height, W width.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Kind = Literal["A", "B"]


class MaskedConv2d(nn.Conv2d):
    """A convolution of odd sides that sees the rows above, the pixels to the left and, at the pixel itself, the colours before.

    Channel i belongs to colour i modulo `colours`. Mask A hides a colour from itself, as the first layer must; mask B shows it
    what the first layer made of it, which holds nothing of the pixel's own colour any more.
    """

    mask: Tensor

    def __init__(self, inputs: int, outputs: int, size: tuple[int, int], kind: Kind, colours: int = 1):
        super().__init__(inputs, outputs, size)
        self.room = (size[0] // 2, size[1] // 2)
        self.register_buffer("mask", causal_mask(inputs, outputs, size, kind, colours), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, inputs, H, W) -> (B, outputs, H, W)."""
        return F.conv2d(x, self.weight * self.mask, self.bias, padding=self.room)


def causal_mask(inputs: int, outputs: int, size: tuple[int, int], kind: Kind, colours: int) -> Tensor:
    """Ones for the weights (outputs, inputs, *size) that are kept."""
    rows, columns = size
    mask = torch.zeros(outputs, inputs, rows, columns)
    mask[:, :, : rows // 2] = 1
    mask[:, :, rows // 2, : columns // 2] = 1
    to, of = torch.arange(outputs)[:, None] % colours, torch.arange(inputs) % colours
    mask[:, :, rows // 2, columns // 2] = (to > of if kind == "A" else to >= of).float()
    return mask


class VerticalConv2d(nn.Conv2d):
    """A convolution over rows above a pixel and columns to both sides of it.

    The first layer sees the `rows` rows strictly above; one after it the pixel's own row too, which by then stands for rows above.
    """

    def __init__(self, inputs: int, outputs: int, size: tuple[int, int], first: bool):
        super().__init__(inputs, outputs, size)
        side = size[1] // 2
        self.room = (side, side, size[0] - (0 if first else 1), 0)
        self.first = first

    def forward(self, x: Tensor) -> Tensor:
        """x (B, inputs, H, W) -> (B, outputs, H, W)."""
        padded = F.pad(x, self.room)
        return super().forward(padded[:, :, :-1] if self.first else padded)
