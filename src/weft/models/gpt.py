"""GPT, a decoder-only Transformer (Radford et al., 2018 and 2019).

Shapes: B batch, T time, D width, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from weft.errors import ConfigError
from weft.layers import init
from weft.layers.attention import SelfAttention
from weft.layers.block import Activation, Block, FeedForward
from weft.layers.dropout import Dropout
from weft.layers.position import rotary, sinusoidal
from weft.models.base import ModelConfig, check_shares, check_sizes


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


class GPT(nn.Module):
    """Next-token logits from the tokens so far."""

    positions: Tensor
    rotary: Tensor

    def __init__(self, config: GPTConfig):
        super().__init__()
        c = self.config = config
        check_sizes(c, vocabulary=1, context=1, layers=1, heads=1, width=1, inner=0)
        check_shares(c, "embedding_dropout", "attention_dropout", "residual_dropout")
        if c.width % c.heads:
            raise ConfigError(f"model.width {c.width} is not a multiple of model.heads {c.heads}")
        if c.position == "rotary" and c.width // c.heads % 2:
            raise ConfigError(f"rotary positions need heads of even width, not {c.width // c.heads} (model.width / model.heads)")
        self.embed = nn.Embedding(c.vocabulary, c.width)
        if c.position == "learned":
            self.position = nn.Embedding(c.context, c.width)
        elif c.position == "sinusoidal":
            self.register_buffer("positions", sinusoidal(c.context, c.width), persistent=False)
        else:
            self.register_buffer("rotary", rotary(c.context, c.width // c.heads), persistent=False)
        self.dropout = Dropout(c.embedding_dropout)
        self.blocks = nn.ModuleList(self._block() for _ in range(c.layers))
        self.norm = nn.LayerNorm(c.width, bias=c.bias) if c.norm == "pre" else nn.Identity()
        self.head = nn.Linear(c.width, c.vocabulary, bias=False)
        self._initialise()
        if c.tied:
            self.head.weight = self.embed.weight

    def _block(self) -> Block:
        c = self.config
        attention = SelfAttention(c.width, c.heads, causal=True, dropout=c.attention_dropout, bias=c.bias)
        feedforward = FeedForward(c.width, c.inner or 4 * c.width, activation=c.activation, bias=c.bias)
        return Block(attention, feedforward, c.width, norm=c.norm, dropout=c.residual_dropout, bias=c.bias)

    def _initialise(self) -> None:
        for name, parameter in self.named_parameters():
            if parameter.ndim < 2:
                continue
            if name.endswith(("out.weight", "fall.weight")):
                init.residual(parameter, self.config.layers)
            else:
                init.normal(parameter)
        for module in self.modules():
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)

    def hidden(self, ids: Tensor) -> Tensor:
        """ids (B, T) -> the last layer's normed states (B, T, D)."""
        t = ids.size(1)
        if t > self.config.context:
            raise ConfigError(f"{t} tokens do not fit a context of {self.config.context}")
        x = self.embed(ids)
        if self.config.position == "learned":
            x = x + self.position.weight[:t]
        elif self.config.position == "sinusoidal":
            x = x + self.positions[:t]
        table = self.rotary[:, :t] if self.config.position == "rotary" else None
        x = self.dropout(x)
        if torch.is_autocast_enabled(x.device.type):  # the residual stream is kept in the precision of the products
            x = x.to(torch.get_autocast_dtype(x.device.type))
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
