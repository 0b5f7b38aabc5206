"""BERT, a Transformer encoder read in both directions (Devlin et al., 2018, arXiv:1810.04805).

Two heads: the token at a masked place, from that place's state, and whether the second sentence follows the first, from
the state of the first token ([CLS]).

Shapes: B batch, T time, D width, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from weft.errors import ConfigError
from weft.layers import init
from weft.layers.attention import SelfAttention
from weft.layers.block import ACTIVATIONS, Activation, Block, FeedForward
from weft.models.base import ModelConfig, check_shares, check_sizes


@dataclass(frozen=True, kw_only=True)
class BERTConfig(ModelConfig):
    vocabulary: int = 0
    """Number of tokens V; 0 takes it from the data."""
    context: int = 0
    """Longest sequence; 0 takes it from the data."""
    segments: int = 2
    """Kinds of segment; a pair of sentences has two."""
    layers: int = 12
    """Number of blocks."""
    heads: int = 12
    """Attention heads per block."""
    width: int = 768
    """Size D of the states."""
    inner: int = 0
    """Width of the feed-forward layer; 0 is four times the width."""
    activation: Activation = "gelu"
    """Non-linearity of the feed-forward layer."""
    dropout: float = 0.1
    """Share of the embedding and of each residual branch zeroed in training."""
    attention_dropout: float = 0.1
    """Share of the attention weights zeroed in training."""
    eps: float = 1e-12
    """Added to the variance in layer norms."""
    deviation: float = 0.02
    """Standard deviation of the first weights; a narrow model learns sooner from larger ones, about 1 / sqrt(D)."""

    def build(self) -> BERT:
        return BERT(self)


class TokenHead(nn.Module):
    """A dense layer, then the embedding table as the output layer."""

    def __init__(self, config: BERTConfig, embedding: nn.Embedding):
        super().__init__()
        self.transform = nn.Linear(config.width, config.width)
        self.norm = nn.LayerNorm(config.width, eps=config.eps)
        self.activation = ACTIVATIONS[config.activation]
        self.decoder = nn.Linear(config.width, embedding.num_embeddings)
        self.decoder.weight = embedding.weight

    def forward(self, hidden: Tensor) -> Tensor:
        """hidden (..., D) -> logits (..., V)."""
        logits: Tensor = self.decoder(self.norm(self.activation(self.transform(hidden))))
        return logits


class BERT(nn.Module):
    """States of tokens that each see the whole sequence."""

    causal = False
    """Its scores look at both sides, so they cannot continue a text."""

    def __init__(self, config: BERTConfig):
        super().__init__()
        c = self.config = config
        check_sizes(c, vocabulary=1, context=1, segments=1, layers=1, heads=1, width=1, inner=0, deviation=0)
        check_shares(c, "dropout", "attention_dropout")
        if c.width % c.heads:
            raise ConfigError(f"model.width {c.width} is not a multiple of model.heads {c.heads}")
        self.embed = nn.Embedding(c.vocabulary, c.width)
        self.position = nn.Embedding(c.context, c.width)
        self.segment = nn.Embedding(c.segments, c.width)
        self.norm = nn.LayerNorm(c.width, eps=c.eps)
        self.dropout = nn.Dropout(c.dropout)
        self.blocks = nn.ModuleList(self._block() for _ in range(c.layers))
        self.head = TokenHead(c, self.embed)
        self.pooler = nn.Linear(c.width, c.width)
        self.pair_head = nn.Linear(c.width, 2)
        self.apply(self._initialise)

    def _block(self) -> Block:
        c = self.config
        attention = SelfAttention(c.width, c.heads, causal=False, dropout=c.attention_dropout)
        feedforward = FeedForward(c.width, c.inner or 4 * c.width, activation=c.activation)
        return Block(attention, feedforward, partial(nn.LayerNorm, c.width, eps=c.eps), order="post", dropout=c.dropout)

    def _initialise(self, module: nn.Module) -> None:
        if isinstance(module, (nn.Linear, nn.Embedding)):
            init.normal(module.weight, self.config.deviation)
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)

    def hidden(self, ids: Tensor, segments: Tensor | None = None, lengths: Tensor | None = None) -> Tensor:
        """ids and segments (B, T), lengths (B,) -> the last layer's states (B, T, D).

        Without segments everything is segment 0; tokens from lengths on are padding, which no token sees.
        """
        t = ids.size(1)
        if t > self.config.context:
            raise ConfigError(f"{t} tokens do not fit a context of {self.config.context}")
        kind = self.segment.weight[0] if segments is None else self.segment(segments)
        x: Tensor = self.dropout(self.norm(self.embed(ids) + self.position.weight[:t] + kind))
        mask = None if lengths is None else (torch.arange(t, device=ids.device) < lengths[:, None])[:, None, None]  # (B, 1, 1, T)
        for block in self.blocks:
            x = block(x, mask)
        return x

    def pooled(self, hidden: Tensor) -> Tensor:
        """hidden (B, T, D) -> one vector for the sequence (B, D)."""
        vector: Tensor = torch.tanh(self.pooler(hidden[:, 0]))
        return vector

    def pair(self, hidden: Tensor) -> Tensor:
        """hidden (B, T, D) -> logits (B, 2) of: the second sentence follows, or does not."""
        logits: Tensor = self.pair_head(self.dropout(self.pooled(hidden)))
        return logits

    def forward(self, ids: Tensor, segments: Tensor | None = None, lengths: Tensor | None = None) -> Tensor:
        """ids and segments (B, T), lengths (B,) -> token logits (B, T, V)."""
        logits: Tensor = self.head(self.hidden(ids, segments, lengths))
        return logits


TINY = BERTConfig(layers=2, heads=2, width=32)
"""Small enough for a test."""
PRESETS = {
    "tiny": TINY,
    "base": BERTConfig(vocabulary=30522, context=512),
    "large": BERTConfig(vocabulary=30522, context=512, layers=24, heads=16, width=1024),
}
