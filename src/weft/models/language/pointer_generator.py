"""Pointer-generator on a Transformer: an encoder and a decoder that can copy words of the source (See et al., 2017, arXiv:1704.04368).

A further attention of one head looks from the decoder's last states at the encoder's output; its weights are the copy distribution, and
what it finds decides, with the state and the last token, between copying and generating. Ids behind the vocabulary stand for unknown words
of the source (`data.tokenizers.extended_vocabulary`): they are read as one and the same unknown word and can be copied only.

Shapes: B batch, S source time, T target time, D width, V vocabulary without those ids, E with them.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from weft.core.errors import ConfigError
from weft.models.base import check_sizes
from weft.models.language.transformer import Transformer, TransformerConfig
from weft.nn import init
from weft.nn.attention import padding_mask
from weft.nn.rnn_attention import RNNAttention
from weft.nn.seq2seq.copy import copy_mixture
from weft.nn.state import EncoderDecoderState


@dataclass(frozen=True, kw_only=True)
class PointerGeneratorConfig(TransformerConfig):
    vocabulary: int = 0
    """Number of tokens E, of source and target together, those for unknown words of a source included; 0 takes it from the data."""
    oov_words: int = 0
    """How many ids at the end of the vocabulary stand for unknown words of a source; 0 takes it from the data."""

    def build(self) -> PointerGenerator:
        return PointerGenerator(self)


class PointerGenerator(Transformer):
    """Log-probabilities of the next target token over the extended vocabulary, as its states and as its logits.

    What `encode` gives are the states of the source and, as one number more, its ids, which a copy has: (B, S, D + 1) in fp32.
    """

    def __init__(self, config: PointerGeneratorConfig):
        check_sizes(config, oov_words=0)
        if config.encoder_output == "layerwise":
            raise ConfigError("--model.encoder_output layerwise gives each layer a source of its own, of which none could be copied")
        if config.vocabulary <= config.oov_words:
            raise ConfigError(f"--model.vocabulary {config.vocabulary} must be larger than --model.oov_words {config.oov_words}")
        known = config.vocabulary - config.oov_words
        super().__init__(dataclasses.replace(config, vocabulary=known + bool(config.oov_words)))  # all unknown words share a row
        self.config, self.known = config, known
        self.generate = self.head
        self.head = nn.Identity()  # type: ignore[assignment]  # the states are log-probabilities
        self.copy = RNNAttention("scaled_dot", config.width, config.width)
        self.query = nn.Linear(config.width, config.width)
        self.gate = nn.Linear(3 * config.width, 1)
        for layer in (self.query, self.gate):
            init.xavier_uniform(layer.weight)
            nn.init.zeros_(layer.bias)

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> Tensor:
        """source (B, S), lengths (B,) -> memory (B, S, D + 1): states, and the ids themselves."""
        states = super().encode(source.clamp(max=self.known), lengths)
        return torch.cat([states.float(), source.unsqueeze(-1).float()], -1)

    def decode_with_attention(
        self, target: Tensor, memory: Tensor, lengths: Tensor | None = None, state: EncoderDecoderState | None = None
    ) -> tuple[Tensor, Tensor]:
        """As `decode`, and the weights of the copy attention (B, T, S)."""
        source, ids = memory[..., :-1].to(self.embed.weight.dtype), memory[..., -1].long()
        target = target.clamp(max=self.known)
        x = super().decode(target, source, lengths, state)
        mask = padding_mask(lengths, source.size(1))
        context, weights = self.copy(self.query(x), self.copy.project(source), source, None if mask is None else mask[:, 0, 0])
        gate = self.gate(torch.cat([x, context.to(x.dtype), self.target_embed(target).to(x.dtype)], -1))
        logits = self.generate(x)[..., : self.known]
        return copy_mixture(logits, weights, gate, ids, self.config.vocabulary), weights

    def decode(self, target: Tensor, memory: Tensor, lengths: Tensor | None = None, state: EncoderDecoderState | None = None) -> Tensor:
        """target (B, T), memory as `encode` gives it, lengths of the source (B,) -> log-probabilities of what follows (B, T, E)."""
        return self.decode_with_attention(target, memory, lengths, state)[0]


TINY = PointerGeneratorConfig(layers=2, heads=2, width=32)
"""Small enough for a test."""
PRESETS = {"tiny": TINY}
