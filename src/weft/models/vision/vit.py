"""Vision Transformer (Dosovitskiy et al., 2020, arXiv:2010.11929): an image is a sequence of patches.

A wave is one too, and so is a video: whatever has one to three sides is cut into patches and read by the same encoder.
Shapes: B batch, C channels, N patches, D width.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod

import torch
from torch import Tensor, nn

from weft.core.errors import ConfigError
from weft.models.base import ModelConfig, check_shares, check_sizes
from weft.nn import init
from weft.nn.attention import SelfAttention
from weft.nn.block import Block
from weft.nn.dropout import Dropout
from weft.nn.feed_forward import Activation, FeedForward
from weft.nn.norm import LayerNorm

CONVOLUTIONS = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
"""By the number of sides: those of a wave, an image, a video."""


@dataclass(frozen=True, kw_only=True)
class ViTConfig(ModelConfig):
    of_task = ("classes",)

    image: tuple[int, ...] = ()
    """Shape of an image, (channels, height, width); () takes it from the data. A wave is (channels, samples)."""
    classes: int = 0
    """Number of classes; 0 takes it from the data."""
    patch: int = 16
    """Side of a patch in pixels; a border narrower than a patch is not seen."""
    layers: int = 12
    """Number of blocks."""
    heads: int = 12
    """Attention heads per block."""
    width: int = 768
    """Size D of the states."""
    ffn_width: int = 0
    """Width of the feed-forward layer; 0 is four times the width."""
    activation: Activation = "gelu"
    """Non-linearity of the feed-forward layer."""
    dropout: float = 0.0
    """Share of the embedding and of each residual branch zeroed in training."""
    attention_dropout: float = 0.0
    """Share of the attention weights zeroed in training."""
    drop_path: float = 0.0
    """Share of the examples for which training leaves out both branches of the last block; in earlier ones it is less, in proportion."""
    eps: float = 1e-12
    """Added to the variance in layer norms."""
    init_std: float = 0.02
    """Standard deviation of the initial weights; a narrow model learns sooner from larger ones, about 1 / sqrt(D)."""

    def build(self) -> ViT:
        return ViT(self)


class ViT(nn.Module):
    """Class logits of an image, read off a token that looks at all patches."""

    task_parts = ("head.",)
    """What starts afresh when a model that was trained for other classes is finetuned."""

    def __init__(self, config: ViTConfig):
        super().__init__()
        c = self.config = config
        self._check()
        channels, *sides = c.image
        number = prod(side // c.patch for side in sides)
        self.patches = CONVOLUTIONS[len(sides)](channels, c.width, kernel_size=c.patch, stride=c.patch)
        self.class_embedding = nn.Parameter(torch.empty(1, 1, c.width))
        self.position_embedding = nn.Parameter(torch.empty(1, 1 + number, c.width))
        self.dropout = Dropout(c.dropout)
        self.blocks = nn.ModuleList(self._block(layer) for layer in range(c.layers))
        self.norm = LayerNorm(c.width, eps=c.eps)
        self.head = nn.Linear(c.width, c.classes)
        for name, parameter in self.named_parameters():
            if parameter.ndim > 1:
                init.normal(parameter, c.init_std)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def _check(self) -> None:
        c = self.config
        check_sizes(c, classes=1, patch=1, layers=1, heads=1, width=1, ffn_width=0, eps=0, init_std=0)
        check_shares(c, "dropout", "attention_dropout", "drop_path")
        if len(c.image) - 1 not in CONVOLUTIONS or c.image[0] < 1:
            raise ConfigError(f"--model.image must be channels and one to three sides, such as 3 224 224, not {c.image}")
        if min(c.image[1:]) < c.patch:
            raise ConfigError(f"--model.patch {c.patch} is larger than the image, whose sides are {c.image[1:]}")
        if c.width % c.heads:
            raise ConfigError(f"--model.width {c.width} is not a multiple of --model.heads {c.heads}")

    def _block(self, layer: int) -> Block:
        c = self.config
        attention = SelfAttention(c.width, c.heads, causal=False, dropout=c.attention_dropout)
        feedforward = FeedForward(c.width, c.ffn_width or 4 * c.width, activation=c.activation)
        skipped = c.drop_path * layer / max(c.layers - 1, 1)
        return Block(attention, feedforward, partial(LayerNorm, c.width, eps=c.eps), dropout=c.dropout, drop_path=skipped)

    def hidden(self, image: Tensor) -> Tensor:
        """image (B, C, height, width) -> the last layer's normed states (B, 1 + N, D), that of the class token first."""
        if image.shape[1:] != self.config.image:
            raise ConfigError(f"an image of shape {tuple(image.shape[1:])} does not fit a model made for {self.config.image}")
        patches = self.patches(image).flatten(2).mT  # (B, N, D)
        x = torch.cat((self.class_embedding.expand(len(image), -1, -1), patches), dim=1)
        x = self.dropout(x + self.position_embedding)
        for block in self.blocks:
            x = block(x)
        states: Tensor = self.norm(x)
        return states

    def forward(self, image: Tensor) -> Tensor:
        """image (B, C, height, width) -> class logits (B, classes)."""
        logits: Tensor = self.head(self.hidden(image)[:, 0])
        return logits

    def classify(self, image: Tensor) -> Tensor:
        """image (B, C, height, width) -> class logits (B, classes)."""
        logits: Tensor = self(image)
        return logits


TINY = ViTConfig(patch=2, layers=2, heads=2, width=32)
"""Small enough for a test."""
PRESETS = {"tiny": TINY, "b16": ViTConfig(image=(3, 224, 224), classes=1000)}
