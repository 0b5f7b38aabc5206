"""Non-autoregressive Transformer (Gu et al., 2017, arXiv:1711.02281), a model of masked targets (Ghazvininejad et al., 2019).

The encoder is the Transformer's. A head over its states predicts how long the target will be; the decoder then reads as many positions
at once, each with its position and either a token that is known or START where none is yet, and gives logits to all of them: it
sees to both sides, so one pass makes a whole target, and further passes improve on what is least sure. Instead of a length, a
model may have a fixed number of positions, all START, and is cut at the first END that it gives.

Shapes: B batch, S source time, T target time, D width, V vocabulary, C context.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from weft.core.errors import ConfigError
from weft.models.base import ModelConfig, check_shares, check_sizes
from weft.nn import init
from weft.nn.attention import SelfAttention, padding_mask
from weft.nn.block import Block
from weft.nn.cross_attention import CrossAttention
from weft.nn.dropout import Dropout
from weft.nn.feed_forward import FeedForward
from weft.nn.norm import LayerNorm
from weft.nn.position import sinusoidal


@dataclass(frozen=True, kw_only=True)
class NonAutoregressiveConfig(ModelConfig):
    vocabulary: int = 0
    """Number of tokens V, of source and target together; 0 takes it from the data."""
    context: int = 0
    """Longest source C, and longest target that can be predicted; 0 takes it from the data."""
    layers: int = 6
    """Number of blocks of the encoder."""
    decoder_layers: int = 0
    """Number of blocks of the decoder; 0 is as many as the encoder has."""
    heads: int = 8
    """Attention heads per block."""
    width: int = 512
    """Size D of the states."""
    ffn_width: int = 0
    """Width of the feed-forward layer; 0 is four times the width."""
    fixed_length: int = 0
    """Length at which every target is generated, to be cut at its first END; 0 predicts the length of each target first."""
    dropout: float = 0.1
    """Share of the embeddings and of each residual branch zeroed in training."""
    attention_dropout: float = 0.0
    """Share of the attention weights zeroed in training."""

    def build(self) -> NonAutoregressive:
        return NonAutoregressive(self)


class CMLMDecoderBlock(nn.Module):
    """x + attention to all targets, x + attention to the source, x + feed-forward, each after a norm."""

    def __init__(self, config: NonAutoregressiveConfig):
        super().__init__()
        c = config
        self.dropout = Dropout(c.dropout)
        self.attention = SelfAttention(c.width, c.heads, causal=False, dropout=c.attention_dropout)
        self.cross = CrossAttention(c.width, c.heads, dropout=c.attention_dropout)
        self.feedforward = FeedForward(c.width, c.ffn_width or 4 * c.width, activation="relu")
        self.norm1, self.norm2, self.norm3 = (LayerNorm(c.width) for _ in range(3))

    def forward(self, x: Tensor, memory: Tensor, seen: Tensor | None, mask: Tensor | None) -> Tensor:
        """x (B, T, D), memory (B, S, D), seen (B, 1, 1, T) and mask (B, 1, 1, S) True where no padding is -> (B, T, D)."""
        x = x + self.dropout(self.attention(self.norm1(x), seen))
        x = x + self.dropout(self.cross(self.norm2(x), memory, mask))
        out: Tensor = x + self.dropout(self.feedforward(self.norm3(x)))
        return out


class NonAutoregressive(nn.Module):
    """The length of a target from the source, and logits of all its tokens from the source and those that are known."""

    causal = False
    """It answers a source; it cannot continue a text by itself."""
    positions: Tensor

    def __init__(self, config: NonAutoregressiveConfig):
        super().__init__()
        c = self.config = config
        check(c)
        self.embed = nn.Embedding(c.vocabulary, c.width)
        # twice the context and an END, so that every target that can be predicted may be made twice as long
        self.register_buffer("positions", sinusoidal(max(2 * c.context, c.fixed_length) + 1, c.width), persistent=False)
        self.dropout = Dropout(c.dropout)
        self.encoder = nn.ModuleList(self._encoder_block() for _ in range(c.layers))
        self.decoder = nn.ModuleList(CMLMDecoderBlock(c) for _ in range(c.decoder_layers or c.layers))
        self.encoder_norm, self.norm = LayerNorm(c.width), LayerNorm(c.width)
        self.head = nn.Linear(c.width, c.vocabulary, bias=False)
        self.head.weight = self.embed.weight
        self.difference = None if c.fixed_length else FeedForward(c.width, c.width, activation="relu")
        self._initialise()

    def _encoder_block(self) -> Block:
        c = self.config
        attention = SelfAttention(c.width, c.heads, causal=False, dropout=c.attention_dropout)
        feedforward = FeedForward(c.width, c.ffn_width or 4 * c.width, activation="relu")
        return Block(attention, feedforward, partial(LayerNorm, c.width), order="pre", dropout=c.dropout)

    def _initialise(self) -> None:
        """As the Transformer: Xavier for every product; embeddings of length one, so of variance one once scaled."""
        for name, parameter in self.named_parameters():
            if name == "embed.weight":
                init.normal(parameter, self.config.width**-0.5)
            elif parameter.ndim == 2:
                products = 3 if name.endswith(".qkv.weight") else 2 if name.endswith(".kv.weight") else 1
                for product in parameter.detach().chunk(products):
                    init.xavier_uniform(product)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    @property
    def longest(self) -> int:
        """Most tokens that a target can be made of."""
        return self.config.fixed_length or 2 * self.config.context

    def _embedded(self, ids: Tensor, seen: Tensor | None) -> Tensor:
        """ids (B, T) -> tokens with their positions (B, T, D), in the precision of the products; zeros where seen has padding."""
        x: Tensor = self.dropout(self.embed(ids) * self.config.width**0.5 + self.positions[: ids.size(1)])
        if seen is not None:
            x = x.masked_fill(~seen[:, 0, 0, :, None], 0.0)  # a weight of 0 does not hide what is not a number
        return x.to(torch.get_autocast_dtype(x.device.type)) if torch.is_autocast_enabled(x.device.type) else x

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> Tensor:
        """source (B, S), lengths (B,) -> memory (B, S, D). Tokens from lengths on are padding, which nothing sees."""
        if source.size(1) > self.config.context:
            raise ConfigError(f"{source.size(1)} tokens do not fit a context of {self.config.context}")
        mask = padding_mask(lengths, source.size(1))
        x = self._embedded(source, mask)
        for block in self.encoder:
            x = block(x, mask)
        memory: Tensor = self.encoder_norm(x)
        return memory

    def length_logits(self, memory: Tensor, lengths: Tensor) -> Tensor:
        """memory (B, S, D), lengths of the source (B,) -> logits (B, C) of a target of 1 … C tokens.

        What is learned is by how much a target is longer than its source, from the mean of the encoder's states. Each difference
        has a row of the table of positions, so that lengths which are near each other are alike from the beginning.
        """
        if self.difference is None:
            raise ConfigError(f"a model of {self.config.fixed_length} positions predicts no length: it is cut at END")
        c = self.config.context
        inside = torch.arange(memory.size(1), device=memory.device) < lengths[:, None]  # (B, S)
        position = torch.arange(c, device=memory.device) + c - lengths[:, None]  # of each length among the differences from 1 - C to C
        with torch.autocast(memory.device.type, enabled=False):  # rounded products would not tell neighbours apart
            mean = memory.float().masked_fill(~inside.unsqueeze(-1), 0.0).sum(1) / lengths.clamp(min=1)[:, None]  # (B, D)
            logits: Tensor = self.difference(mean) @ self.positions[: 2 * c].T  # (B, 2 C)
        return logits.gather(1, position)

    def decode_parallel(self, target: Tensor, sizes: Tensor | None, memory: Tensor, lengths: Tensor | None = None) -> Tensor:
        """target (B, T) with START where nothing is known, its sizes (B,), memory, lengths of the source (B,) -> states (B, T, D)."""
        if target.size(1) > len(self.positions):
            raise ConfigError(f"{target.size(1) - 1} tokens are more than the {self.longest} that a target may have")
        seen, mask = padding_mask(sizes, target.size(1)), padding_mask(lengths, memory.size(1))
        x = self._embedded(target, seen)
        for block in self.decoder:
            x = block(x, memory, seen, mask)
        out: Tensor = self.norm(x)
        return out

    def forward(self, source: Tensor, lengths: Tensor | None, target: Tensor, sizes: Tensor | None = None) -> Tensor:
        """source (B, S), its lengths (B,), target (B, T) with START where nothing is known, its sizes (B,) -> logits (B, T, V)."""
        logits: Tensor = self.head(self.decode_parallel(target, sizes, self.encode(source, lengths), lengths))
        return logits


def check(c: NonAutoregressiveConfig) -> None:
    """Refuse settings that make no model."""
    check_sizes(c, vocabulary=1, context=1, layers=1, decoder_layers=0, heads=1, width=1, ffn_width=0, fixed_length=0)
    check_shares(c, "dropout", "attention_dropout")
    if c.width % c.heads:
        raise ConfigError(f"model.width {c.width} is not a multiple of model.heads {c.heads}")


PRESETS: dict[str, Any] = {
    "tiny": NonAutoregressiveConfig(layers=2, heads=2, width=32),
    "base": NonAutoregressiveConfig(vocabulary=37000, context=512),
}
