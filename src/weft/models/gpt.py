"""GPT, a decoder-only Transformer (Radford et al., 2018 and 2019).

Shapes: B batch, T time, D width, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from weft.layers.block import Activation
from weft.models.base import ModelConfig, check_sizes
from weft.models.decoder import Decoder


@dataclass(frozen=True, kw_only=True)
class GPTConfig(ModelConfig):
    vocabulary: int = 0
    """Number of tokens V; 0 takes it from the data."""
    context: int = 0
    """Longest sequence; 0 takes it from the data."""
    layers: int = 6
    """Number of blocks."""
    heads: int = 6
    """Attention heads per block."""
    width: int = 384
    """Size D of the residual stream."""
    inner: int = 0
    """Width of the feed-forward layer; 0 is four times the width."""
    position: Literal["learned", "sinusoidal", "rotary"] = "learned"
    """How positions are told."""
    norm: Literal["pre", "post"] = "pre"
    """Layer norm before each branch (GPT-2) or after each sum (GPT-1)."""
    activation: Activation = "gelu"
    """Non-linearity of the feed-forward layer."""
    tied: bool = True
    """Share the embedding with the output head."""
    bias: bool = True
    """Biases in linear layers and norms."""
    embedding_dropout: float = 0.0
    """Share of the embedding zeroed in training."""
    attention_dropout: float = 0.0
    """Share of the attention weights zeroed in training."""
    residual_dropout: float = 0.0
    """Share of each residual branch zeroed in training."""

    def build(self) -> GPT:
        return GPT(self)


class GPT(Decoder):
    """Next-token logits from the tokens so far."""

    def __init__(self, config: GPTConfig):
        c = config
        check_sizes(c, vocabulary=1, context=1, layers=1, heads=1, width=1, inner=0)
        super().__init__(config)
        self.blocks = nn.ModuleList(self._block(c.norm) for _ in range(c.layers))
        self.norm = nn.LayerNorm(c.width, bias=c.bias) if c.norm == "pre" else nn.Identity()
        self.head = nn.Linear(c.width, c.vocabulary, bias=False)
        self._initialise()
        if c.tied:
            self.head.weight = self.embed.weight

    def hidden(self, ids: Tensor) -> Tensor:
        """ids (B, T) -> the last layer's normed states (B, T, D)."""
        x = self._embedded(ids)
        table = self.rotary[:, : ids.size(1)] if self.config.position == "rotary" else None
        for block in self.blocks:
            x = block(x, rotary=table)
        out: Tensor = self.norm(x)
        return out

    def forward(self, ids: Tensor) -> Tensor:
        """ids (B, T) -> logits (B, T, V)."""
        logits: Tensor = self.head(self.hidden(ids))
        return logits


TINY = GPTConfig(layers=2, heads=2, width=32)
"""Small enough for a test."""
PRESETS = {"tiny": TINY, "char": GPTConfig(layers=6, heads=6, width=384)}
