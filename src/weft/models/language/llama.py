"""Llama, a decoder-only Transformer with RMS norms, rotary positions, gated feed-forward layers and grouped queries.

Touvron et al., 2023, arXiv:2302.13971 and arXiv:2307.09288. SmolLM2, Mistral and many others have this form.
Shapes: B batch, T time, D width, V vocabulary, K head width.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from weft.core.errors import ConfigError
from weft.models.base import ModelConfig, check_sizes
from weft.nn import init
from weft.nn.attention import SelfAttention
from weft.nn.block import Block
from weft.nn.decoder_stack import DecoderStack
from weft.nn.document_mask import document_mask
from weft.nn.feed_forward import GatedFeedForward
from weft.nn.norm import RMSNorm
from weft.nn.position import rope_table
from weft.nn.state import KVCache


@dataclass(frozen=True, kw_only=True)
class LlamaConfig(ModelConfig):
    vocabulary: int = 0
    """Number of tokens V; 0 takes it from the data."""
    context: int = 0
    """Longest sequence; 0 takes it from the data."""
    layers: int = 8
    """Number of blocks."""
    heads: int = 8
    """Attention heads per block."""
    kv_heads: int = 0
    """Key/value heads of grouped-query attention (GQA), each shared by heads / kv_heads query heads; 0 is as many as `heads`."""
    width: int = 512
    """Size D of the residual stream."""
    ffn_width: int = 0
    """Width of the feed-forward layer; 0 is 8/3 of the width, rounded up to a multiple of 64."""
    rope_base: float = 10000.0
    """Base theta of the rotary position embedding (RoPE): the slowest wavelength over 2π."""
    eps: float = 1e-5
    """Added to the mean square in norms."""
    tie_embeddings: bool = True
    """Share the embedding with the output head."""

    def build(self) -> Llama:
        return Llama(self)

    @property
    def hidden_units(self) -> int:
        """Width of the feed-forward layer."""
        return self.ffn_width or -(-8 * self.width // (3 * 64)) * 64


class Llama(nn.Module):
    """Next-token logits from the tokens so far."""

    rotary: Tensor

    def __init__(self, config: LlamaConfig):
        super().__init__()
        c = self.config = config
        check(c)
        self.embed = nn.Embedding(c.vocabulary, c.width)
        self.register_buffer("rotary", rope_table(c.context, c.width // c.heads, c.rope_base), persistent=False)
        self.blocks = nn.ModuleList(self._block() for _ in range(c.layers))
        self.norm = RMSNorm(c.width, eps=c.eps)
        self.head = nn.Linear(c.width, c.vocabulary, bias=False)
        for name, parameter in self.named_parameters():
            if name.endswith(("out.weight", "down.weight")):
                init.residual(parameter, c.layers)
            elif parameter.ndim == 2:
                init.normal(parameter)
        if c.tie_embeddings:
            self.head.weight = self.embed.weight

    def _block(self) -> Block:
        c = self.config
        attention = SelfAttention(c.width, c.heads, causal=True, bias=False, kv_heads=c.kv_heads)
        return Block(attention, GatedFeedForward(c.width, c.hidden_units), partial(RMSNorm, c.width, eps=c.eps))

    def new_state(self) -> KVCache:
        """An empty KV cache for `hidden`, in the precision of the weights."""
        c = self.config
        return KVCache(c.layers, c.kv_heads or c.heads, c.width // c.heads, c.context, self.embed.weight)

    def hidden(self, ids: Tensor, state: KVCache | None = None, lengths: Tensor | None = None, documents: Tensor | None = None) -> Tensor:
        """ids (B, T) -> the last layer's normed states (B, T, D); with a state, ids stand behind what it holds.

        lengths (B,) of the new tokens change nothing: the keys and values of padding are not counted, so nothing sees them. With
        documents (B, T), numbers that never fall along a row, each is read as if it stood alone.
        """
        t = ids.size(1)
        if t > self.config.context:
            raise ConfigError(f"{t} tokens do not fit a context of {self.config.context}")
        positions, mask, layer_kvs = state.extend(t) if state else (None, None, [None] * len(self.blocks))
        # what only fills up a row may stand beyond the last position
        table = self.rotary[:, :t] if positions is None else self.rotary[:, positions.clamp(max=self.config.context - 1)]
        if documents is not None:
            mask = document_mask(documents, blocks=self.blocks[0].attention.document_blocks)  # type: ignore[union-attr, arg-type]
        x = self.embedded(ids)
        for block, layer_kv in zip(self.blocks, layer_kvs, strict=True):
            x = block(x, mask, table, layer_kv)
        out: Tensor = self.norm(x)
        return out

    def decoder_stack(self) -> DecoderStack:
        return DecoderStack(positions="rotary", windows=(0,) * len(self.blocks), weights=("rotary",))

    def embedded(self, ids: Tensor, positions: Tensor | None = None) -> Tensor:
        """ids (B, T) -> tokens (B, T, D), in the precision of the products; where they stand is told to the heads."""
        x: Tensor = self.embed(ids)
        return x.to(torch.get_autocast_dtype(x.device.type)) if torch.is_autocast_enabled(x.device.type) else x

    def forward(self, ids: Tensor) -> Tensor:
        """ids (B, T) -> logits (B, T, V)."""
        logits: Tensor = self.head(self.hidden(ids))
        return logits


def check(c: LlamaConfig) -> None:
    """Refuse settings that make no model."""
    check_sizes(c, vocabulary=1, context=1, layers=1, heads=1, kv_heads=0, width=1, ffn_width=0)
    if c.width % (2 * c.heads):
        raise ConfigError(f"--model.width {c.width} must be a multiple of twice --model.heads {c.heads}: rotary positions turn pairs")
    if c.kv_heads and c.heads % c.kv_heads:
        raise ConfigError(f"--model.heads {c.heads} is not a multiple of --model.kv_heads {c.kv_heads}")


TINY = LlamaConfig(layers=2, heads=4, kv_heads=2, width=32)
"""Small enough for a test."""
PRESETS = {
    "tiny": TINY,
    "smollm2-135m": LlamaConfig(
        vocabulary=49152, context=8192, layers=30, heads=9, kv_heads=3, width=576, ffn_width=1536, rope_base=100000.0
    ),
    "llama-7b": LlamaConfig(vocabulary=32000, context=4096, layers=32, heads=32, width=4096, ffn_width=11008, tie_embeddings=False),
}
