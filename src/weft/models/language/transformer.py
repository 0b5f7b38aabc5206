"""Transformer, an encoder and a decoder made of attention (Vaswani et al., 2017, arXiv:1706.03762).

Shapes: B batch, S source time, T target time, D width, V vocabulary, L layers of the decoder.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from weft.core.errors import ConfigError
from weft.models.base import ModelConfig, check_shares, check_sizes
from weft.nn import init
from weft.nn.attention import SelfAttention, padding_mask
from weft.nn.block import Block, Order
from weft.nn.cross_attention import CrossAttention
from weft.nn.dropout import Dropout
from weft.nn.feed_forward import Activation, FeedForward
from weft.nn.norm import LayerNorm
from weft.nn.position import sinusoidal
from weft.nn.state import NO_CACHE, DecoderLayerKV, EncoderDecoderState, KVCache


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(ModelConfig):
    vocabulary: int = 0
    """Number of tokens V, of source and target together; 0 takes it from the data."""
    context: int = 0
    """Longest source and longest target: the length of the table of positions; 0 takes it from the data."""
    layers: int = 6
    """Number of blocks of the encoder."""
    decoder_layers: int = 0
    """Number of blocks L of the decoder; 0 is as many as the encoder has."""
    heads: int = 8
    """Attention heads per block."""
    width: int = 512
    """Size D of the states."""
    ffn_width: int = 0
    """Width of the feed-forward layer; 0 is four times the width."""
    norm: Order = "post"
    """Layer norm after each sum (the paper) or before each branch."""
    activation: Activation = "relu"
    """Non-linearity of the feed-forward layer."""
    encoder_output: Literal["last", "all", "layerwise"] = "last"
    """What the decoder looks at: the encoder's last layer, the mean of all its layers, or layer i for its own layer i."""
    interleaved_positions: bool = True
    """Sines and cosines take turns in the table of positions (the paper); otherwise all sines stand first (its code, and Marian)."""
    tie_embeddings: bool = True
    """Share one table between source embedding, target embedding and output head."""
    output_bias: bool = False
    """A bias for every token at the output (Marian)."""
    dropout: float = 0.1
    """Share of the embeddings and of each residual branch zeroed in training."""
    attention_dropout: float = 0.0
    """Share of the attention weights zeroed in training."""

    def build(self) -> Transformer:
        return Transformer(self)


class DecoderBlock(nn.Module):
    """x + attention to earlier targets, x + attention to the source, x + feed-forward; norm first ("pre") or last ("post")."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        c = config
        self.order, self.dropout = c.norm, Dropout(c.dropout)
        self.attention = SelfAttention(c.width, c.heads, causal=True, dropout=c.attention_dropout)
        self.cross = CrossAttention(c.width, c.heads, dropout=c.attention_dropout)
        self.feedforward = FeedForward(c.width, c.ffn_width or 4 * c.width, activation=c.activation)
        self.norm1, self.norm2, self.norm3 = (LayerNorm(c.width) for _ in range(3))

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor | None = None, cached: DecoderLayerKV = NO_CACHE) -> Tensor:
        """x (B, T, D), memory (B, S, D), mask (B, 1, 1, S) True where the source may be seen -> (B, T, D)."""
        if self.order == "pre":
            x = x + self.dropout(self.attention(self.norm1(x), cached.mask, None, cached.own))
            x = x + self.dropout(self.cross(self.norm2(x), memory, mask, cross_kv=cached.cross))
            x = x + self.dropout(self.feedforward(self.norm3(x)))
        else:
            x = self.norm1(x + self.dropout(self.attention(x, cached.mask, None, cached.own)))
            x = self.norm2(x + self.dropout(self.cross(x, memory, mask, cross_kv=cached.cross)))
            x = self.norm3(x + self.dropout(self.feedforward(x)))
        return x


class Transformer(nn.Module):
    """Logits of the next target token from the whole source and the targets so far."""

    causal = False
    """It answers a source; it cannot continue a text by itself."""
    positions: Tensor

    def __init__(self, config: TransformerConfig):
        super().__init__()
        c = self.config = config
        check(c)
        self.embed = nn.Embedding(c.vocabulary, c.width)
        self.target_embed = self.embed if c.tie_embeddings else nn.Embedding(c.vocabulary, c.width)
        table = sinusoidal(c.context, c.width)
        self.register_buffer(
            "positions", table if c.interleaved_positions else torch.cat([table[:, 0::2], table[:, 1::2]], 1), persistent=False
        )
        self.dropout = Dropout(c.dropout)
        self.encoder = nn.ModuleList(self._encoder_block() for _ in range(c.layers))
        self.decoder = nn.ModuleList(DecoderBlock(c) for _ in range(c.decoder_layers or c.layers))
        self.encoder_norm = LayerNorm(c.width) if c.norm == "pre" else nn.Identity()
        self.norm = LayerNorm(c.width) if c.norm == "pre" else nn.Identity()
        self.head = nn.Linear(c.width, c.vocabulary, bias=c.output_bias)
        if c.tie_embeddings:
            self.head.weight = self.embed.weight
        self._initialise()

    def _encoder_block(self) -> Block:
        c = self.config
        attention = SelfAttention(c.width, c.heads, causal=False, dropout=c.attention_dropout)
        feedforward = FeedForward(c.width, c.ffn_width or 4 * c.width, activation=c.activation)
        return Block(attention, feedforward, partial(LayerNorm, c.width), order=c.norm, dropout=c.dropout)

    def _initialise(self) -> None:
        """Xavier for every product, also where several are stored as one; embeddings of length one, so of variance one once scaled."""
        for name, parameter in self.named_parameters():
            if name.endswith(("embed.weight", "head.weight")):
                init.normal(parameter, self.config.width**-0.5)
            elif parameter.ndim == 2:
                products = 3 if name.endswith(".qkv.weight") else 2 if name.endswith(".kv.weight") else 1
                for product in parameter.detach().chunk(products):
                    init.xavier_uniform(product)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def new_state(self) -> EncoderDecoderState:
        """An empty state for `decode`, in the precision of the weights."""
        c = self.config
        return EncoderDecoderState(KVCache(c.decoder_layers or c.layers, c.heads, c.width // c.heads, c.context, self.embed.weight))

    def _embedded(self, table: nn.Embedding, ids: Tensor, positions: Tensor | None = None) -> Tensor:
        """ids (B, T) -> tokens with their positions (B, T, D), in the precision of the products; positions (B, T) where not from 0 on."""
        t = ids.size(1)
        if t > self.config.context:
            raise ConfigError(f"{t} tokens do not fit a context of {self.config.context}")
        positions = self.positions[:t] if positions is None else self.positions[positions.clamp(max=self.config.context - 1)]
        x: Tensor = self.dropout(table(ids) * self.config.width**0.5 + positions)
        return x.to(torch.get_autocast_dtype(x.device.type)) if torch.is_autocast_enabled(x.device.type) else x

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> Tensor:
        """source (B, S), lengths (B,) -> memory (B, S, D), or with "layerwise" one for each layer of the decoder (B, L, S, D).

        Tokens from lengths on are padding, which nothing sees.
        """
        x, mask = self._embedded(self.embed, source), padding_mask(lengths, source.size(1))
        if mask is not None:
            x = x.masked_fill(~mask[:, 0, 0, :, None], 0.0)  # a weight of 0 does not hide what is not a number
        states = []
        for block in self.encoder:
            x = block(x, mask)
            states.append(x)
        memory: Tensor = self.encoder_norm(x if self.config.encoder_output == "last" else torch.stack(states, 1))
        return memory.mean(1) if self.config.encoder_output == "all" else memory

    def decode(self, target: Tensor, memory: Tensor, lengths: Tensor | None = None, state: EncoderDecoderState | None = None) -> Tensor:
        """target (B, T), memory as `encode` gives it, lengths of the source (B,) -> the last layer's states (B, T, D).

        With a state, the targets stand behind what it holds.
        """
        blocks: list[Any] = list(self.decoder)
        layerwise = self.config.encoder_output == "layerwise"
        sources = [memory[:, number] if layerwise else memory for number in range(len(blocks))]
        positions, cached = None, [NO_CACHE] * len(blocks)
        if state:
            projections = [partial(block.cross.project, source) for block, source in zip(blocks, sources, strict=True)]
            positions, _, cached = state.extend(target.size(1), projections)
        x, mask = self._embedded(self.target_embed, target, positions), padding_mask(lengths, memory.size(-2))
        for block, source, layer in zip(blocks, sources, cached, strict=True):
            x = block(x, source, mask, layer)
        out: Tensor = self.norm(x)
        return out

    def hidden(self, source: Tensor, lengths: Tensor | None, target: Tensor) -> Tensor:
        """source (B, S), its lengths (B,), target (B, T) -> the decoder's last states (B, T, D)."""
        return self.decode(target, self.encode(source, lengths), lengths)

    def forward(self, source: Tensor, lengths: Tensor | None, target: Tensor) -> Tensor:
        """source (B, S), its lengths (B,), target (B, T) -> logits (B, T, V) of what follows each target."""
        logits: Tensor = self.head(self.hidden(source, lengths, target))
        return logits


def check(c: TransformerConfig) -> None:
    """Refuse settings that make no model."""
    check_sizes(c, vocabulary=1, context=1, layers=1, decoder_layers=0, heads=1, width=1, ffn_width=0)
    check_shares(c, "dropout", "attention_dropout")
    if c.width % c.heads:
        raise ConfigError(f"model.width {c.width} is not a multiple of model.heads {c.heads}")
    if c.encoder_output == "layerwise" and c.decoder_layers not in (0, c.layers):
        raise ConfigError(f"--model.encoder_output layerwise needs {c.layers} layers in the decoder too, not {c.decoder_layers}")


TINY = TransformerConfig(layers=2, heads=2, width=32)
"""Small enough for a test."""
PRESETS = {
    "tiny": TINY,
    "base": TransformerConfig(vocabulary=37000, context=512),
    "big": TransformerConfig(vocabulary=37000, context=512, heads=16, width=1024, dropout=0.3),
}
