"""Perceiver: a Transformer over a few latents instead of the whole sequence (Jaegle et al., 2021, arXiv:2103.03206).

Two ways to choose the M latents of a causal model:

- "learned": a learned basis reads the sequence, blocks run over the basis, and every position reads the result. Latent i
  sees inputs 0 to i only, so nothing leaks; but inputs from M on enter no latent, and a position t >= M sees inputs 0 to
  M - 1 and itself, not what lies between.
- "last": the last M real positions read all inputs before them, blocks run over these, and only they have an output
  (Perceiver AR, Hawthorne et al., 2022, arXiv:2202.07765). Nothing is hidden; with M = T it is a GPT.

Shapes: B batch, T time, M latents, D width, K head width, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from weft.core.errors import ConfigError
from weft.models.base import ModelConfig, check_sizes
from weft.models.language.decoder import Decoder
from weft.nn import init
from weft.nn.cross_attention import CrossAttention, causal_mask
from weft.nn.dropout import Dropout
from weft.nn.feed_forward import Activation, FeedForward
from weft.nn.norm import LayerNorm


@dataclass(frozen=True, kw_only=True)
class PerceiverConfig(ModelConfig):
    vocabulary: int = 0
    """Number of tokens V; 0 takes it from the data."""
    context: int = 0
    """Longest sequence; 0 takes it from the data."""
    latents: int = 64
    """Number M of latents, the bottleneck of the model."""
    queries: Literal["learned", "last"] = "learned"
    """What the latents are: a learned basis, or the last M real positions (Perceiver AR)."""
    pad: int = 0
    """Token that fills a row up on its right, which "last" passes over; -1 where every token is real."""
    layers: int = 4
    """Number of blocks, those into and out of the latents included."""
    heads: int = 8
    """Attention heads per block."""
    width: int = 256
    """Size D of the residual stream."""
    ffn_width: int = 0
    """Width of the feed-forward layer; 0 is four times the width."""
    position_embedding: Literal["learned", "sinusoidal", "rotary"] = "learned"
    """Position embedding: learned, sinusoidal or rotary (RoPE)."""
    activation: Activation = "gelu"
    """Non-linearity of the feed-forward layer."""
    bias: bool = True
    """Biases in linear layers and norms."""
    embedding_dropout: float = 0.0
    """Share of the embedding zeroed in training."""
    attention_dropout: float = 0.0
    """Share of the attention weights zeroed in training."""
    residual_dropout: float = 0.0
    """Share of each residual branch zeroed in training."""

    def build(self) -> Perceiver:
        return Perceiver(self)


class CrossBlock(nn.Module):
    """x + attention into a memory, x + feed-forward; the first norm stands before the queries, the memory or both."""

    def __init__(self, config: PerceiverConfig, normed: Literal["queries", "memory", "both"]):
        super().__init__()
        c, self.normed = config, normed
        self.attention = CrossAttention(c.width, c.heads, dropout=c.attention_dropout, bias=c.bias)
        self.feedforward = FeedForward(c.width, c.ffn_width or 4 * c.width, activation=c.activation, bias=c.bias)
        self.norm1, self.norm2 = LayerNorm(c.width, bias=c.bias), LayerNorm(c.width, bias=c.bias)
        self.dropout = Dropout(c.residual_dropout)

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor, rotary: Tensor | None, memory_rotary: Tensor | None) -> Tensor:
        """x (1 or B, T, D), memory (B, S, D) -> (B, T, D); masks and tables as in CrossAttention."""
        queries = x if self.normed == "memory" else self.norm1(x)
        memory = memory if self.normed == "queries" else self.norm1(memory)
        x = x + self.dropout(self.attention(queries, memory, mask, rotary, memory_rotary))
        out: Tensor = x + self.dropout(self.feedforward(self.norm2(x)))
        return out


class Perceiver(Decoder):
    """Next-token logits from the tokens so far, by way of M latents."""

    def __init__(self, config: PerceiverConfig):
        c = config
        check(c)
        super().__init__(config)
        if c.queries == "learned":
            self.basis = nn.Parameter(torch.empty(1, c.latents, c.width))
            self.down, self.up = CrossBlock(c, "queries"), CrossBlock(c, "memory")
        else:
            self.down = CrossBlock(c, "both")
        self.blocks = nn.ModuleList(self._block() for _ in range(c.layers - (2 if c.queries == "learned" else 1)))
        self.norm = LayerNorm(c.width, bias=c.bias)
        self.head = nn.Linear(c.width, c.vocabulary, bias=False)
        self._initialise()

    def _initialise_matrix(self, name: str, parameter: Tensor) -> None:
        if name == "basis":
            init.xavier_uniform(parameter)  # three dimensions count as a convolution's: fan in M D, fan out D
        else:
            super()._initialise_matrix(name, parameter)

    def hidden(self, ids: Tensor) -> Tensor:
        """ids (B, T) -> the last layer's normed states (B, T, D); with "last" they are zero outside the latents' positions."""
        x = self.embedded(ids)
        return self._through_basis(x) if self.config.queries == "learned" else self._through_last(x, ids)

    def _through_basis(self, x: Tensor) -> Tensor:
        """x (B, T, D) -> (B, T, D). No position sees a latent after it, so those from T on are left out."""
        positions = torch.arange(x.size(1), device=x.device)
        latent = positions[: self.config.latents]  # latent i stands where input i stands
        table, latent_table = self._rotary_at(positions), self._rotary_at(latent)
        z = self.basis[:, : len(latent)].to(x.dtype)
        z = self.down(z, x, causal_mask(latent, x.size(1)), latent_table, table)  # (B, M, D)
        for block in self.blocks:
            z = block(z, rotary=latent_table)
        out: Tensor = self.norm(self.up(x, z, causal_mask(positions, len(latent)), table, latent_table))
        return out

    def _through_last(self, x: Tensor, ids: Tensor) -> Tensor:
        """x (B, T, D) -> (B, T, D)."""
        positions = torch.arange(x.size(1), device=x.device)
        latent = self.latent_positions(ids)  # (B, M)
        table, latent_table = self._rotary_at(positions), self._rotary_at(latent)
        where = latent.unsqueeze(-1).expand(-1, -1, x.size(-1))  # (B, M, D)
        z = self.down(x.gather(1, where), x, causal_mask(latent, x.size(1)), latent_table, table)
        for block in self.blocks:
            z = block(z, rotary=latent_table)
        normed: Tensor = self.norm(z)
        return normed.new_zeros(x.shape).scatter(1, where, normed)

    def latent_positions(self, ids: Tensor) -> Tensor:
        """ids (B, T) -> the positions (B, M) of "last"; a row with fewer real tokens has its first M. Never waits for the device."""
        latents: int = min(self.config.latents, ids.size(1))
        positions = torch.arange(ids.size(1), device=ids.device)
        pad: int = self.config.pad
        real = torch.where(ids == pad, 0, positions + 1).amax(1, keepdim=True)  # (B, 1), up to the last that is no padding
        return (real - latents).clamp(min=0) + positions[:latents]

    def _rotary_at(self, positions: Tensor) -> Tensor | None:
        """positions (T,) or (B, T) -> their rotary table (2, T, K) or (2, B, T, K), where positions are rotary."""
        return self.rotary[:, positions] if self.config.position_embedding == "rotary" else None

    def forward(self, ids: Tensor) -> Tensor:
        """ids (B, T) -> logits (B, T, V)."""
        logits: Tensor = self.head(self.hidden(ids))
        return logits


def check(c: PerceiverConfig) -> None:
    """Refuse settings that make no model."""
    check_sizes(c, vocabulary=1, context=1, latents=1, pad=-1, heads=1, width=1, ffn_width=0)
    least = 3 if c.queries == "learned" else 2
    if c.layers < least:
        parts = "one into the latents, one over them" + (", one out of them" if least == 3 else "")
        raise ConfigError(f"--model.layers must be at least {least} with {c.queries} queries ({parts}), not {c.layers}")
    if c.latents > c.context:
        raise ConfigError(f"--model.latents {c.latents} is more than the {c.context} positions of the context")


TINY = PerceiverConfig(layers=3, heads=2, width=32, latents=8)
"""Small enough for a test."""
PRESETS = {"tiny": TINY, "reference": PerceiverConfig(vocabulary=256, context=128)}
