"""Conformer encoder with a Transformer decoder, and a head for connectionist temporal classification beside it (Watanabe et al., 2017;
Gulati et al., 2020, arXiv:2005.08100).

Shapes: B batch, S frames, N states of the encoder, T target time, M features, D width, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor, nn

from weft.core.errors import ConfigError
from weft.models.audio.conformer import ConformerConfig
from weft.models.base import check_sizes
from weft.models.language.transformer import DecoderBlock, TransformerConfig
from weft.nn import init
from weft.nn.attention import padding_mask
from weft.nn.dropout import Dropout
from weft.nn.norm import LayerNorm
from weft.nn.position import sinusoidal
from weft.nn.state import NO_CACHE, EncoderDecoderState, KVCache


@dataclass(frozen=True, kw_only=True)
class ConformerAEDConfig(ConformerConfig):
    context: int = 0
    """Longest target: the length of the decoder's table of positions; 0 takes it from the data."""
    decoder_layers: int = 6
    """Blocks of the decoder."""
    ctc: bool = True
    """A head for connectionist temporal classification, which --objective.ctc learns beside the decoder."""

    def build(self) -> ConformerAED:
        return ConformerAED(self)


class ConformerAED(nn.Module):
    """Logits of the next token from all frames and the tokens before."""

    causal = False
    """It answers a source; it cannot continue a text by itself."""
    positions: Tensor

    def __init__(self, config: ConformerAEDConfig):
        super().__init__()
        c = self.config = config
        check_sizes(c, context=1, decoder_layers=1)
        self.encoder = c.encoder()
        self.target_embed, self.dropout = nn.Embedding(c.vocabulary, c.width), Dropout(c.dropout)
        self.register_buffer("positions", sinusoidal(c.context, c.width), persistent=False)
        block = TransformerConfig(width=c.width, heads=c.heads, ffn_width=c.ffn_width, norm="pre", dropout=c.dropout)
        self.decoder = nn.ModuleList(DecoderBlock(block) for _ in range(c.decoder_layers))
        self.norm, self.head = LayerNorm(c.width), nn.Linear(c.width, c.vocabulary)
        if c.ctc:
            self.ctc_head = nn.Linear(c.width, c.vocabulary)
        self._initialise()

    def _initialise(self) -> None:
        init.normal(self.target_embed.weight, self.config.width**-0.5)
        for name, parameter in self.named_parameters():
            if name.startswith(("decoder.", "head.", "ctc_head.")) and parameter.ndim == 2:
                for product in parameter.detach().chunk(3 if name.endswith("qkv.weight") else 2 if name.endswith(".kv.weight") else 1):
                    init.xavier_uniform(product)
            elif name.startswith(("decoder.", "head.", "ctc_head.")) and name.endswith(".bias"):
                nn.init.zeros_(parameter)

    def new_state(self) -> EncoderDecoderState:
        """An empty state for `decode`, in the precision of the weights."""
        c = self.config
        return EncoderDecoderState(KVCache(c.decoder_layers, c.heads, c.width // c.heads, c.context, self.target_embed.weight))

    def encoded_lengths(self, lengths: Tensor) -> Tensor:
        """Frames (B,) -> states (B,)."""
        return self.encoder.lengths(lengths)

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> Tensor:
        """source (B, S, M), lengths (B,) -> states (B, N, D)."""
        states: Tensor = self.encoder(source, lengths)
        return states

    def decode(self, target: Tensor, memory: Tensor, lengths: Tensor | None = None, state: EncoderDecoderState | None = None) -> Tensor:
        """target (B, T), memory (B, N, D), its lengths (B,) -> the last layer's states (B, T, D).

        With a state, the targets stand behind what it holds.
        """
        blocks: list[Any] = list(self.decoder)
        t, cached = target.size(1), [NO_CACHE] * len(blocks)
        if t > self.config.context:
            raise ConfigError(f"{t} tokens do not fit a context of {self.config.context}")
        positions = self.positions[:t]
        if state:
            places, _, cached = state.extend(t, [partial(block.cross.project, memory) for block in blocks])
            positions = self.positions[places.clamp(max=self.config.context - 1)]
        x = self.dropout(self.target_embed(target) * self.config.width**0.5 + positions).to(memory.dtype)
        mask = padding_mask(lengths, memory.size(1))
        for block, layer in zip(blocks, cached, strict=True):
            x = block(x, memory, mask, layer)
        out: Tensor = self.norm(x)
        return out

    def hidden(self, source: Tensor, lengths: Tensor | None, target: Tensor) -> Tensor:
        """source (B, S, M), its lengths (B,), target (B, T) -> the decoder's last states (B, T, D)."""
        memory = self.encode(source, lengths)
        return self.decode(target, memory, None if lengths is None else self.encoded_lengths(lengths))

    def forward(self, source: Tensor, lengths: Tensor | None, target: Tensor) -> Tensor:
        """source (B, S, M), its lengths (B,), target (B, T) -> logits (B, T, V) of what follows each token."""
        logits: Tensor = self.head(self.hidden(source, lengths, target))
        return logits


_SIZES = {"features": 8, "vocabulary": 12, "context": 20, "layers": 1, "decoder_layers": 1, "heads": 2, "width": 16, "kernel": 3}
PRESETS = {"tiny": ConformerAEDConfig(**_SIZES, subsampling=2)}  # type: ignore[arg-type]
