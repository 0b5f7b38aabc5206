"""Gated PixelCNN (van den Oord et al., 2016, arXiv:1606.05328): two stacks of convolutions that together see every pixel before.

The vertical stack sees all rows above, to both sides; the horizontal one the pixels to the left in the row itself, and what the
vertical one knows. Each layer ends in a gate, tanh(a) sigmoid(b).

Shapes: B batch, L levels, C colours, H height, W width, D channels of a stack.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from weft.models.generative.pixelcnn import PixelCNNConfig, PixelModel, check, outward
from weft.nn.convolution.masked_convolution import Kind, MaskedConv2d, VerticalConv2d
from weft.nn.dropout import Dropout


@dataclass(frozen=True, kw_only=True)
class GatedPixelCNNConfig(PixelCNNConfig):
    layers: int = 7
    """Layers after the first."""
    width: int = 64
    """Channels D of each stack."""
    first_kernel: int = 7
    """Side of the first layer's kernel, of which each stack has the part it may see."""
    dropout: float = 0.0
    """Share of each stack zeroed in training, in front of every layer but the first."""

    def build(self) -> PixelModel:
        return GatedPixelCNN(self)


class Layer(nn.Module):
    """One step of both stacks, added to what they hold. (The paper adds only in the horizontal one; deep stacks learn better so.)"""

    def __init__(self, inputs: int, width: int, side: int, kind: Kind, colours: int, dropout: float = 0.0):
        super().__init__()
        first = kind == "A"
        rows = side // 2 if first else side // 2 + 1
        self.vertical = VerticalConv2d(inputs, 2 * width, (rows, side), first)
        self.link = nn.Conv2d(2 * width, 2 * width, 1)
        self.horizontal = MaskedConv2d(inputs, 2 * width, (1, side), kind, colours)
        self.mix = MaskedConv2d(width, width, (1, 1), "B", colours)
        self.dropout, self.first = Dropout(dropout), first

    def forward(self, above: Tensor, left: Tensor) -> tuple[Tensor, Tensor]:
        """What is known of rows above and of pixels to the left, each (B, inputs, H, W) -> the same after this layer, (B, D, H, W)."""
        down = self.vertical(self.dropout(above))
        across = self.mix(gate(self.horizontal(self.dropout(left)) + self.link(down)))
        return (gate(down), across) if self.first else (above + gate(down), left + across)


def gate(x: Tensor) -> Tensor:
    """(B, 2 D, H, W) -> (B, D, H, W)."""
    content, opening = x.chunk(2, dim=1)
    return content.tanh() * opening.sigmoid()


class GatedPixelCNN(PixelModel):
    def __init__(self, config: GatedPixelCNNConfig):
        check(config)
        super().__init__(config.image, config.levels)
        c, colours = config, config.image[0]
        self.config = config
        self.inward = Layer(colours, c.width, c.first_kernel, "A", colours)
        self.layers = nn.ModuleList(Layer(c.width, c.width, c.kernel, "B", colours, c.dropout) for _ in range(c.layers))
        self.outward = outward(c.width, config)

    def logits(self, x: Tensor) -> Tensor:
        above, left = self.inward(2 * x - 1, 2 * x - 1)
        for layer in self.layers:
            above, left = layer(above, left)
        found: Tensor = self.outward(left)
        return found.view(len(x), self.levels, *x.shape[1:])


TINY = GatedPixelCNNConfig(layers=1, width=8)
"""Small enough for a test."""
PRESETS = {"tiny": TINY, "mnist": GatedPixelCNNConfig(image=(1, 28, 28), layers=12, width=96)}
