"""Conformer (Gulati et al., 2020, arXiv:2005.08100), and what its states say by connectionist temporal classification (Graves et al.,
2006).

Shapes: B batch, S frames, T states of the encoder, M features, D width, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from weft.core.errors import ConfigError
from weft.models.base import ModelConfig, check_shares, check_sizes
from weft.nn import init
from weft.nn.audio.conformer import ConformerEncoder


@dataclass(frozen=True, kw_only=True)
class ConformerConfig(ModelConfig):
    """Settings of the encoder, which recognisers of several kinds share."""

    features: int = 0
    """Features M of a frame; 0 takes it from the data."""
    vocabulary: int = 0
    """Number of tokens V; 0 takes it from the data."""
    layers: int = 12
    """Blocks of the encoder."""
    heads: int = 4
    """Attention heads per block."""
    width: int = 256
    """Size D of the states."""
    ffn_width: int = 0
    """Width of the feed-forward layers; 0 is four times the width."""
    kernel: int = 31
    """States that a convolution sees; an odd number."""
    subsampling: int = 4
    """Frames that become one state: 1, 2, 4 or 8; a label needs at least one, and 2 is for short words."""
    dropout: float = 0.1
    """Share of the residual branches and of the attention weights zeroed in training."""

    def build(self) -> nn.Module:
        raise NotImplementedError

    def encoder(self) -> ConformerEncoder:
        """The encoder of these settings."""
        check_sizes(self, features=1, vocabulary=1, layers=1, heads=1, width=2, ffn_width=0, kernel=1)
        check_shares(self, "dropout")
        if self.width % (2 * self.heads):
            raise ConfigError(f"--model.width {self.width} is not a multiple of twice --model.heads {self.heads}")
        if self.kernel % 2 == 0:
            raise ConfigError(f"--model.kernel must be odd, to have a middle, not {self.kernel}")
        if self.subsampling not in (1, 2, 4, 8):
            raise ConfigError(f"--model.subsampling must be 1, 2, 4 or 8, not {self.subsampling}")
        ffn_width = self.ffn_width or 4 * self.width
        sizes = (self.features, self.width, self.layers, self.heads, ffn_width, self.kernel, self.subsampling)
        return ConformerEncoder(*sizes, dropout=self.dropout)


@dataclass(frozen=True, kw_only=True)
class ConformerCTCConfig(ConformerConfig):
    def build(self) -> ConformerCTC:
        return ConformerCTC(self)


class ConformerCTC(nn.Module):
    """Logits of a token, or of the blank, which is token 0, at each state."""

    def __init__(self, config: ConformerCTCConfig):
        super().__init__()
        self.config = config
        self.encoder = config.encoder()
        self.ctc_head = nn.Linear(config.width, config.vocabulary)
        init.xavier_uniform(self.ctc_head.weight)
        nn.init.zeros_(self.ctc_head.bias)

    def encoded_lengths(self, lengths: Tensor) -> Tensor:
        """Frames (B,) -> states (B,)."""
        return self.encoder.lengths(lengths)

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> Tensor:
        """source (B, S, M), lengths (B,) -> states (B, T, D)."""
        states: Tensor = self.encoder(source, lengths)
        return states

    def forward(self, source: Tensor, lengths: Tensor | None = None) -> Tensor:
        """source (B, S, M), lengths (B,) -> logits (B, T, V)."""
        logits: Tensor = self.ctc_head(self.encode(source, lengths))
        return logits


PRESETS = {
    "tiny": ConformerCTCConfig(features=8, vocabulary=12, layers=1, heads=2, width=16, kernel=3, subsampling=2),
    "small": ConformerCTCConfig(layers=16, width=144, heads=4, kernel=31),
    "medium": ConformerCTCConfig(layers=16, width=256, heads=4, kernel=31),
    "large": ConformerCTCConfig(layers=17, width=512, heads=8, kernel=31),
}
"""Small, medium and large as in the paper."""
