"""GPT with what speedruns of its training have found: QK-norm, normed embeddings, embedding skips, zero initialisation.

Keller Jordan et al., modded-nanogpt, 2024, github.com/KellerJordan/modded-nanogpt. Each can be left out, to see what it does.

Shapes: B batch, T time, D width.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.models.language.gpt import GPT, GPTConfig
from weft.nn.attention import SelfAttention
from weft.nn.decoder_stack import DecoderStack
from weft.nn.feed_forward import Activation


@dataclass(frozen=True, kw_only=True)
class SpeedrunGPTConfig(GPTConfig):
    position_embedding: Literal["learned", "sinusoidal", "rotary"] = "rotary"
    """Position embedding: learned, sinusoidal, or rotary (RoPE)."""
    activation: Activation = "squared_relu"
    """Non-linearity of the feed-forward layer."""
    tie_embeddings: bool = False
    """Share the embedding with the output head."""
    bias: bool = False
    """Biases in linear layers and norms."""
    qk_norm: bool = True
    """RMS-normalise queries and keys per head (QK-norm), which keeps attention stable at high learning rates."""
    embedding_norm: bool = True
    """RMS-normalise the embedded tokens before the first block."""
    embedding_skips: bool = True
    """Add the embedded tokens to what every block reads, times a learned scale that begins at 0."""
    zero_init: bool = True
    """Begin with zeros in the last layer of every branch and in an untied head, so that each block begins as the identity."""

    def build(self) -> SpeedrunGPT:
        return SpeedrunGPT(self)


class SpeedrunGPT(GPT):
    """Next-token logits from the tokens so far."""

    config: SpeedrunGPTConfig

    def __init__(self, config: SpeedrunGPTConfig):
        super().__init__(config)
        if config.embedding_skips:
            self.skips = nn.Parameter(torch.zeros(config.layers))

    def _attention(self) -> SelfAttention:
        c = self.config
        return SelfAttention(c.width, c.heads, causal=True, dropout=c.attention_dropout, bias=c.bias, qk_norm=c.qk_norm)

    def _initialise_matrix(self, name: str, parameter: Tensor) -> None:
        if self.config.zero_init and name.endswith(("out.weight", "down.weight", "head.weight")):
            nn.init.zeros_(parameter)
        else:
            super()._initialise_matrix(name, parameter)

    def embedded(self, ids: Tensor, positions: Tensor | None = None) -> Tensor:
        x = super().embedded(ids, positions)
        return F.rms_norm(x, (x.size(-1),), eps=1e-6).to(x.dtype) if self.config.embedding_norm else x

    def _through_blocks(self, x: Tensor, masks: Any, rope_table: Tensor | None, layer_kvs: Any) -> Tensor:
        """The blocks one after another, each of which reads a share of the embedded tokens x (B, T, D) again -> (B, T, D)."""
        if not self.config.embedding_skips:
            return super()._through_blocks(x, masks, rope_table, layer_kvs)
        embedded = x
        for number, block in enumerate(self.blocks):
            x = x + self.skips[number].to(x.dtype) * embedded
            x = block(x, masks[number] if masks else None, rope_table, layer_kvs[number] if layer_kvs else None)
        return x

    def decoder_stack(self) -> DecoderStack:
        c = self.config
        stack = super().decoder_stack()
        return dataclasses.replace(stack, embedding_norm=c.embedding_norm, skips=c.embedding_skips, weights=(*stack.weights, "skips"))
