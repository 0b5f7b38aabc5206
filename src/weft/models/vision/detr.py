"""DETR (Carion et al., 2020, arXiv:2005.12872): objects of an image as a set, each found by a query of its own.

A convolutional network makes a coarse map of the image, whose places an encoder lets look at each other; a decoder lets the queries look
at them and at each other. Every query tells one object, or that it has none.
Shapes: B batch, C channels, S side, N places of the map, Q queries, D width, K classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from weft.core.errors import ConfigError
from weft.models.base import ModelConfig, check_sizes
from weft.nn import init
from weft.nn.attention import SelfAttention
from weft.nn.block import Block
from weft.nn.cross_attention import CrossAttention
from weft.nn.feed_forward import FeedForward
from weft.nn.norm import LayerNorm


@dataclass(frozen=True, kw_only=True)
class DETRConfig(ModelConfig):
    of_task = ("classes",)

    image: tuple[int, ...] = ()
    """Shape of an image, (channels, height, width); () takes it from the data."""
    classes: int = 0
    """Number of classes K; 0 takes it from the data. "No object" is one more."""
    queries: int = 8
    """Number of queries Q: most objects that are found in an image."""
    channels: tuple[int, ...] = (32, 64)
    """Of the convolutions before the last, each of which halves the sides."""
    layers: int = 2
    """Blocks of the encoder, and of the decoder."""
    heads: int = 4
    """Attention heads per block."""
    width: int = 64
    """Size D of the states."""

    def build(self) -> DETR:
        return DETR(self)


class DecoderLayer(nn.Module):
    """Queries look at each other, then at the image."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        attention = SelfAttention(width, heads, causal=False)
        self.block = Block(attention, FeedForward(width, 4 * width), lambda: LayerNorm(width))
        self.norm, self.cross = LayerNorm(width), CrossAttention(width, heads)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        """x (B, Q, D), memory (B, N, D) -> (B, Q, D)."""
        x = x + self.cross(self.norm(x), memory)
        out: Tensor = self.block(x)
        return out


class DETR(nn.Module):
    task_parts = ("classifier.",)

    def __init__(self, config: DETRConfig):
        super().__init__()
        c = self.config = config
        check_sizes(c, classes=1, queries=1, layers=1, heads=1, width=1)
        downsamplings = len(c.channels) + 1
        if len(c.image) != 3 or min(c.image[1:]) < 2**downsamplings or min(c.channels, default=1) < 1:
            raise ConfigError(f"--model.image must be channels, height and width of at least {2**downsamplings} pixels each, not {c.image}")
        if c.width % c.heads:
            raise ConfigError(f"--model.width {c.width} is not a multiple of --model.heads {c.heads}")
        self.convolutions = nn.Sequential(*convolutions((c.image[0], *c.channels, c.width)))
        places = list(c.image[1:])
        for _ in range(downsamplings):
            places = [(side + 1) // 2 for side in places]
        self.position_embedding = nn.Parameter(torch.empty(1, places[0] * places[1], c.width))
        self.query_embedding = nn.Parameter(torch.empty(1, c.queries, c.width))
        self.encoder = nn.ModuleList(
            Block(SelfAttention(c.width, c.heads, causal=False), FeedForward(c.width, 4 * c.width), lambda: LayerNorm(c.width))
            for _ in range(c.layers)
        )
        self.decoder = nn.ModuleList(DecoderLayer(c.width, c.heads) for _ in range(c.layers))
        self.norms = nn.ModuleList(LayerNorm(c.width) for _ in range(2))
        self.classifier = nn.Linear(c.width, c.classes + 1)
        self.boxes = nn.Sequential(nn.Linear(c.width, c.width), nn.ReLU(), nn.Linear(c.width, 4))
        for parameter in (self.position_embedding, self.query_embedding):
            init.normal(parameter, c.width**-0.5)

    def detect(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """image (B, C, S, S) -> class logits (B, Q, K + 1), of which the last is that there is no object, and boxes (B, Q, 4) as centre x,
        centre y, width and height in shares of the side."""
        if image.shape[1:] != self.config.image:
            raise ConfigError(f"an image of shape {tuple(image.shape[1:])} does not fit a model made for {self.config.image}")
        memory = self.convolutions(image).flatten(2).transpose(1, 2) + self.position_embedding  # (B, N, D)
        for block in self.encoder:
            memory = block(memory)
        memory = self.norms[0](memory)
        x = self.query_embedding.expand(len(image), -1, -1)
        for layer in self.decoder:
            x = layer(x, memory)
        x = self.norms[1](x)
        return self.classifier(x), self.boxes(x).sigmoid()

    def forward(self, image: Tensor) -> Tensor:
        """image (B, C, S, S) -> logits and boxes side by side (B, Q, K + 5)."""
        return torch.cat(self.detect(image), -1)


def convolutions(channels: Sequence[int]) -> list[nn.Module]:
    """Halves the sides between each two numbers of channels."""
    layers: list[nn.Module] = []
    for before, after in pairwise(channels):
        layers += [nn.Conv2d(before, after, 3, stride=2, padding=1), nn.GroupNorm(1, after), nn.ReLU()]
    return layers


TINY = DETRConfig(image=(3, 16, 16), classes=3, queries=3, channels=(4,), layers=1, heads=2, width=8)
"""Small enough for a test."""
PRESETS = {"tiny": TINY}
