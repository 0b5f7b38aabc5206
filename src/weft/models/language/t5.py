"""T5, an encoder and a decoder that turn text into text (Raffel et al., 2019, arXiv:1910.10683).

Against the Transformer of 2017: norms first and without mean or bias, no biases at all, scores that are not scaled, and
positions as a learned bias of the scores, one for each head and bucket of distances, common to all layers of a stack.

Shapes: B batch, S source time, T target time, D width, H heads, K head width, V vocabulary.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.core.errors import ConfigError
from weft.models.base import ModelConfig, check_shares, check_sizes
from weft.nn import init
from weft.nn.attention import fused_attention, padding_mask
from weft.nn.dropout import Dropout
from weft.nn.norm import RMSNorm
from weft.nn.state import NO_CACHE, DecoderLayerKV, EncoderDecoderState, KVCache, LayerKV


@dataclass(frozen=True, kw_only=True)
class T5Config(ModelConfig):
    vocabulary: int = 0
    """Number of tokens V, of source and target together; 0 takes it from the data."""
    layers: int = 6
    """Number of blocks of the encoder."""
    decoder_layers: int = 0
    """Number of blocks of the decoder; 0 is as many as the encoder has."""
    heads: int = 8
    """Attention heads H per block."""
    head_dim: int = 64
    """Width K of an attention head; the heads together need not be as wide as the states."""
    width: int = 512
    """Size D of the residual stream."""
    ffn_width: int = 0
    """Width of the feed-forward layer; 0 is four times the width."""
    gated: bool = False
    """Feed-forward layers gated by GELU (version 1.1), instead of ReLU."""
    tie_embeddings: bool = True
    """Share the embedding with the output head, which then sees states scaled by 1 / sqrt(D)."""
    relative_buckets: int = 32
    """Buckets of the relative position bias."""
    max_distance: int = 128
    """Distance from which on all pairs of tokens share the last bucket."""
    dropout: float = 0.1
    """Share zeroed in training: of embeddings, attention weights, inner layers, residual branches and last states."""

    def build(self) -> T5:
        return T5(self)


def bucket(offset: Tensor, buckets: int, distance: int, causal: bool) -> Tensor:
    """The kind of each offset of a key from its query, in 0 to buckets - 1: exact when near, by its logarithm when far.

    A causal stack has all buckets for keys that stand before; else half of them are for keys that stand behind.
    """
    if causal:
        side, away = torch.zeros_like(offset), (-offset).clamp(min=0)
    else:
        buckets //= 2
        side, away = (offset > 0) * buckets, offset.abs()
    exact = buckets // 2
    share = torch.log(away.clamp(min=exact).float() / exact) / math.log(distance / exact)
    far = exact + (share * (buckets - exact)).long()
    return side + torch.where(away < exact, away, far.clamp(max=buckets - 1))


class RelativeBias(nn.Module):
    """What the offset of a key from its query adds to their score."""

    def __init__(self, config: T5Config, causal: bool):
        super().__init__()
        self.config, self.causal = config, causal
        self.table = nn.Embedding(config.relative_buckets, config.heads)

    def forward(self, positions: Tensor, keys: int) -> Tensor:
        """Where queries stand (1 or B, T), and the number of keys S -> bias (1 or B, H, T, S)."""
        offset = torch.arange(keys, device=positions.device) - positions.unsqueeze(-1)  # (B, T, S)
        bias: Tensor = self.table(bucket(offset, self.config.relative_buckets, self.config.max_distance, self.causal))  # (B, T, S, H)
        return bias.permute(0, 3, 1, 2)


class Attention(nn.Module):
    """Every query looks at the keys of its own sequence (at earlier ones only where causal), or of another."""

    attention_fn = staticmethod(fused_attention)
    """What queries find among keys and values. `kernels.select` may put another function there that computes the same."""

    def __init__(self, config: T5Config, *, causal: bool):
        super().__init__()
        c = config
        self.heads, self.head, self.causal, self.dropout = c.heads, c.head_dim, causal, c.dropout
        self.q = nn.Linear(c.width, c.heads * c.head_dim, bias=False)
        self.kv = nn.Linear(c.width, 2 * c.heads * c.head_dim, bias=False)
        self.out = nn.Linear(c.heads * c.head_dim, c.width, bias=False)

    def project(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of a memory (B, S, D), each (B, H, S, K)."""
        k, v = self.kv(memory).view(*memory.shape[:2], 2, self.heads, self.head).permute(2, 0, 3, 1, 4)
        return k, v

    def forward(
        self, x: Tensor, key_values: tuple[Tensor, Tensor], mask: Tensor | None, bias: Tensor | None = None, layer_kv: LayerKV | None = None
    ) -> Tensor:
        """x (B, T, D), keys and values of `project`, mask (B, 1, 1, S) True where a key may be seen, bias (1, H, T, S) -> (B, T, D).

        With a KV cache, the keys and values are new and stand behind what it holds; mask and bias are then of all of its positions.
        """
        q = self.q(x).view(len(x), -1, self.heads, self.head).transpose(1, 2)  # (B, H, T, K)
        k, v = key_values if layer_kv is None else (each.to(q.dtype) for each in layer_kv.update(*key_values))
        dropout, causal = self.dropout if self.training else 0.0, self.causal and layer_kv is None
        mixed = self.attention_fn(q, k, v, mask, causal, dropout, bias, scale=1.0)
        out: Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return out


class FeedForward(nn.Module):
    """D -> inner -> D at every position, with dropout inside."""

    def __init__(self, config: T5Config):
        super().__init__()
        c = config
        ffn_width = c.ffn_width or 4 * c.width
        self.gated, self.dropout = c.gated, Dropout(c.dropout)
        if c.gated:
            self.gate_up = nn.Linear(c.width, 2 * ffn_width, bias=False)
        else:
            self.up = nn.Linear(c.width, ffn_width, bias=False)
        self.down = nn.Linear(ffn_width, c.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) -> (B, T, D)."""
        if self.gated:
            gate, up = self.gate_up(x).chunk(2, dim=-1)
            x = F.gelu(gate, approximate="tanh") * up
        else:
            x = F.relu(self.up(x))
        out: Tensor = self.down(self.dropout(x))
        return out


class EncoderBlock(nn.Module):
    """x + attention to all of x, x + feed-forward."""

    def __init__(self, config: T5Config):
        super().__init__()
        self.attention, self.feedforward = Attention(config, causal=False), FeedForward(config)
        self.norm1, self.norm2 = RMSNorm(config.width, eps=1e-6), RMSNorm(config.width, eps=1e-6)
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor, mask: Tensor | None, bias: Tensor) -> Tensor:
        """x (B, S, D), mask (B, 1, 1, S), bias (1, H, S, S) -> (B, S, D)."""
        y = self.norm1(x)
        x = x + self.dropout(self.attention(y, self.attention.project(y), mask, bias))
        out: Tensor = x + self.dropout(self.feedforward(self.norm2(x)))
        return out


class DecoderBlock(nn.Module):
    """x + attention to earlier x, x + attention to the source, x + feed-forward."""

    def __init__(self, config: T5Config):
        super().__init__()
        self.attention, self.cross = Attention(config, causal=True), Attention(config, causal=False)
        self.feedforward = FeedForward(config)
        self.norm1, self.norm2, self.norm3 = (RMSNorm(config.width, eps=1e-6) for _ in range(3))
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor, bias: Tensor, memory: Tensor, mask: Tensor | None, cached: DecoderLayerKV) -> Tensor:
        """x (B, T, D), bias (1, H, T, T), or of all that is seen, memory (B, S, D), mask (B, 1, 1, S) -> (B, T, D)."""
        y = self.norm1(x)
        x = x + self.dropout(self.attention(y, self.attention.project(y), cached.mask, bias, cached.own))
        x = x + self.dropout(self.cross(self.norm2(x), cached.cross or self.cross.project(memory), mask))
        out: Tensor = x + self.dropout(self.feedforward(self.norm3(x)))
        return out


class T5(nn.Module):
    """Logits of the next target token from the whole source and the targets so far, of any length."""

    causal = False
    """It answers a source; it cannot continue a text by itself."""

    def __init__(self, config: T5Config):
        super().__init__()
        c = self.config = config
        check(c)
        self.embed = nn.Embedding(c.vocabulary, c.width)
        self.encoder = nn.ModuleList(EncoderBlock(c) for _ in range(c.layers))
        self.decoder = nn.ModuleList(DecoderBlock(c) for _ in range(c.decoder_layers or c.layers))
        self.encoder_bias, self.decoder_bias = RelativeBias(c, causal=False), RelativeBias(c, causal=True)
        self.encoder_norm, self.norm = RMSNorm(c.width, eps=1e-6), RMSNorm(c.width, eps=1e-6)
        self.dropout = Dropout(c.dropout)
        self.head = nn.Linear(c.width, c.vocabulary, bias=False)
        self._initialise()
        if c.tie_embeddings:
            self.head.weight = self.embed.weight

    def _initialise(self) -> None:
        """N(0, 1 / fan in); for queries the scaling of the scores, which is missing, as well; N(0, 1) for embeddings."""
        c = self.config
        for name, parameter in self.named_parameters():
            if parameter.ndim == 2:
                init.normal(parameter, parameter.size(1) ** -0.5)
            if name.endswith(".q.weight"):
                init.normal(parameter, (c.width * c.head_dim) ** -0.5)
            if name.endswith("_bias.table.weight"):
                init.normal(parameter, c.width**-0.5)
        init.normal(self.embed.weight, 1.0)

    def _embedded(self, ids: Tensor) -> Tensor:
        """ids (B, T) -> tokens (B, T, D), in the precision of the products."""
        x: Tensor = self.dropout(self.embed(ids))
        return x.to(torch.get_autocast_dtype(x.device.type)) if torch.is_autocast_enabled(x.device.type) else x

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> Tensor:
        """source (B, S), lengths (B,) -> memory (B, S, D). Tokens from lengths on are padding, which nothing sees."""
        x, mask = self._embedded(source), padding_mask(lengths, source.size(1))
        if mask is not None:
            x = x.masked_fill(~mask[:, 0, 0, :, None], 0.0)  # a weight of 0 does not hide what is not a number
        bias = self.encoder_bias(torch.arange(source.size(1), device=source.device)[None], source.size(1))
        for block in self.encoder:
            x = block(x, mask, bias)
        memory: Tensor = self.dropout(self.encoder_norm(x))
        return memory

    def new_state(self) -> EncoderDecoderState:
        """An empty state for `decode`, in the precision of the weights."""
        c = self.config
        return EncoderDecoderState(KVCache(c.decoder_layers or c.layers, c.heads, c.head_dim, 1 << 30, self.embed.weight))

    def decode(self, target: Tensor, memory: Tensor, lengths: Tensor | None = None, state: EncoderDecoderState | None = None) -> Tensor:
        """target (B, T), memory (B, S, D), lengths of the source (B,) -> states for the head (B, T, D).

        With a state, the targets stand behind what it holds.
        """
        blocks: list[Any] = list(self.decoder)
        t, cached = target.size(1), [NO_CACHE] * len(blocks)
        positions, size = torch.arange(t, device=target.device)[None], t
        if state:
            positions, seen, cached = state.extend(t, [partial(block.cross.project, memory) for block in blocks])
            size = seen.size(-1)
        x, bias, mask = self._embedded(target), self.decoder_bias(positions, size), padding_mask(lengths, memory.size(1))
        for block, layer in zip(blocks, cached, strict=True):
            x = block(x, bias, memory, mask, layer)
        out: Tensor = self.dropout(self.norm(x))
        return out * self.config.width**-0.5 if self.config.tie_embeddings else out

    def hidden(self, source: Tensor, lengths: Tensor | None, target: Tensor) -> Tensor:
        """source (B, S), its lengths (B,), target (B, T) -> states for the head (B, T, D)."""
        return self.decode(target, self.encode(source, lengths), lengths)

    def forward(self, source: Tensor, lengths: Tensor | None, target: Tensor) -> Tensor:
        """source (B, S), its lengths (B,), target (B, T) -> logits (B, T, V) of what follows each target."""
        logits: Tensor = self.head(self.hidden(source, lengths, target))
        return logits


def check(c: T5Config) -> None:
    """Refuse settings that make no model."""
    check_sizes(c, vocabulary=1, layers=1, decoder_layers=0, heads=1, head_dim=1, width=1, ffn_width=0, relative_buckets=4, max_distance=1)
    check_shares(c, "dropout")
    if c.max_distance <= c.relative_buckets // 2:
        raise ConfigError(
            f"--model.max_distance {c.max_distance} must be above half of --model.relative_buckets {c.relative_buckets}: those are exact"
        )


def first(layers: int, heads: int, width: int, ffn_width: int, head: int = 64) -> T5Config:
    return T5Config(vocabulary=32128, layers=layers, heads=heads, head_dim=head, width=width, ffn_width=ffn_width)


def second(layers: int, heads: int, width: int, ffn_width: int) -> T5Config:
    """Version 1.1."""
    return T5Config(vocabulary=32128, layers=layers, heads=heads, width=width, ffn_width=ffn_width, gated=True, tie_embeddings=False)


TINY = T5Config(layers=2, heads=2, head_dim=16, width=32)
"""Small enough for a test."""
PRESETS = {
    "tiny": TINY,
    "small": first(6, 8, 512, 2048),
    "base": first(12, 12, 768, 3072),
    "large": first(24, 16, 1024, 4096),
    "3b": first(24, 32, 1024, 16384, head=128),
    "11b": first(24, 128, 1024, 65536, head=128),
    "v1.1-small": second(8, 6, 512, 1024),
    "v1.1-base": second(12, 12, 768, 2048),
    "v1.1-large": second(24, 16, 1024, 2816),
    "v1.1-xl": second(24, 32, 2048, 5120),
    "v1.1-xxl": second(24, 64, 4096, 10240),
}
