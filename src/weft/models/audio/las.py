"""Listen, attend and spell (Chan et al., 2015, arXiv:1508.01211), with location-sensitive attention (Chorowski et al., 2015,
arXiv:1506.07503).

The listener is a pyramid of LSTMs in both directions, each of which reads two states of the one below as one. The speller is an LSTM that
looks at the listener's states before it tells a token, and knows where it looked before: beside each state, the memory of a sound has room
for how much it was looked at last, which decoding token by token fills in.

Shapes: B batch, S frames, T target time, N states of the listener, M features, W width, E embedding width, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.core.errors import ConfigError
from weft.models.base import ModelConfig, check_shares, check_sizes
from weft.nn import init
from weft.nn.dropout import Dropout
from weft.nn.recurrent import Recurrent
from weft.nn.seq2seq.location_attention import LocationAttention
from weft.nn.state import EncoderDecoderState, RecurrentState

FOUND = "found"
"""Name, among the tensors of the speller's state, of what it found at its last look."""


@dataclass(frozen=True, kw_only=True)
class LASConfig(ModelConfig):
    features: int = 0
    """Features M of a frame; 0 takes it from the data."""
    vocabulary: int = 0
    """Number of tokens V; 0 takes it from the data."""
    context: int = 0
    """Longest target; 0 takes it from the data."""
    layers: int = 3
    """Layers of the listener; all but the first halve the number of states."""
    width: int = 256
    """Width W of the listener's states, of both directions together, and of the speller's."""
    decoder_layers: int = 1
    """Layers of the speller."""
    attention_width: int = 128
    """Width of the sum inside the score of attention."""
    filters: int = 10
    """Filters over where was looked before."""
    kernel: int = 31
    """States that such a filter sees; an odd number."""
    dropout: float = 0.1
    """Share of the embeddings, of what goes from layer to layer and of what the head reads, zeroed in training."""

    def build(self) -> LAS:
        return LAS(self)


class Listener(nn.Module):
    """A pyramid of LSTMs."""

    def __init__(self, features: int, width: int, layers: int, dropout: float):
        super().__init__()
        inputs = [features] + [2 * width] * (layers - 1)
        self.layers = nn.ModuleList(Recurrent("lstm", size, width // 2, bidirectional=True) for size in inputs)
        self.dropout = Dropout(dropout)

    def lengths(self, lengths: Tensor) -> Tensor:
        """Frames (B,) -> states (B,)."""
        for _ in self.layers[1:]:
            lengths = (lengths + 1) // 2
        return lengths

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """x (B, S, M), lengths (B,) -> (B, N, W), 0 behind the last state of a row."""
        for number, layer in enumerate(self.layers):
            if number:
                x = F.pad(self.dropout(x), (0, 0, 0, x.size(1) % 2))
                x = x.view(len(x), x.size(1) // 2, 2 * x.size(2))
                lengths = None if lengths is None else (lengths + 1) // 2
            x, _ = layer(x, lengths)
        return x


class LAS(nn.Module):
    """Logits of the next token from frames and the tokens before."""

    causal = False
    """It answers a source; it cannot continue a text by itself."""

    def __init__(self, config: LASConfig):
        super().__init__()
        c = self.config = config
        check_sizes(c, features=1, vocabulary=1, context=1, layers=1, width=2, decoder_layers=1, attention_width=1, filters=1, kernel=1)
        check_shares(c, "dropout")
        if c.width % 2:
            raise ConfigError(f"--model.width {c.width} is odd, but both directions of the listener have half of it each")
        self.listener = Listener(c.features, c.width, c.layers, c.dropout)
        self.target_embed, self.dropout = nn.Embedding(c.vocabulary, c.width), Dropout(c.dropout)
        self.speller = Recurrent("lstm", 2 * c.width, c.width, c.decoder_layers, dropout=c.dropout)
        self.cross = LocationAttention(c.width, c.width, c.attention_width, filters=c.filters, kernel=c.kernel)
        self.combine = nn.Linear(2 * c.width, c.width)
        self.head = nn.Linear(c.width, c.vocabulary)
        init.normal(self.target_embed.weight, c.width**-0.5)
        for layer in (self.combine, self.head):
            init.xavier_uniform(layer.weight)
            nn.init.zeros_(layer.bias)

    def encoded_lengths(self, lengths: Tensor) -> Tensor:
        """Frames (B,) -> states of the listener (B,)."""
        return self.listener.lengths(lengths)

    def new_state(self) -> EncoderDecoderState:
        """An empty state for `decode`, in the precision of the weights."""
        shapes = {**self.speller.state_shapes, FOUND: (self.config.width,)}
        return EncoderDecoderState(RecurrentState(shapes, self.target_embed.weight))

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> Tensor:
        """source (B, S, M), lengths (B,) -> states, and how much each was looked at, which is not at all (B, N, W + 1)."""
        return F.pad(self.listener(source, lengths), (0, 1))

    def decode(self, target: Tensor, memory: Tensor, lengths: Tensor | None = None, state: EncoderDecoderState | None = None) -> Tensor:
        """target (B, T), memory (B, N, W + 1), its lengths (B,) -> what the head reads (B, T, W).

        With a state, the targets stand behind what it holds, and the memory is told where was looked last.
        """
        return self.decode_with_attention(target, memory, lengths, state)[0]

    def decode_with_attention(
        self, target: Tensor, memory: Tensor, lengths: Tensor | None = None, state: EncoderDecoderState | None = None
    ) -> tuple[Tensor, Tensor]:
        """The same, and with which weights each token was told from the states (B, T, N)."""
        mask = None if lengths is None else torch.arange(memory.size(1), device=memory.device) < lengths[:, None]
        values, where = memory[..., :-1], memory[..., -1].float()
        keys = self.cross.project(values)
        inner, found = None, values.new_zeros(len(values), values.size(2))
        if state:
            assert isinstance(state.decoder, RecurrentState)
            inner, found = state.decoder.tensors, state.decoder.tensors[FOUND]
        outputs, looks = [], []
        for x in self.dropout(self.target_embed(target)).unbind(1):
            hidden, inner = self.speller(torch.cat([x, found.to(x.dtype)], -1)[:, None], None, inner)
            looked, weights, where = self.cross(hidden, keys, values, where, mask)
            found = looked[:, 0]
            outputs.append(torch.cat([looked, hidden.to(looked.dtype)], -1))
            looks.append(weights)
        if state:
            state.decoder.update(**inner, found=found)  # type: ignore[union-attr, arg-type]
            memory[..., -1] = where
        combined: Tensor = self.dropout(torch.tanh(self.combine(torch.cat(outputs, 1))))
        return combined, torch.cat(looks, 1)

    def hidden(self, source: Tensor, lengths: Tensor | None, target: Tensor) -> Tensor:
        """source (B, S, M), its lengths (B,), target (B, T) -> what the head reads (B, T, W)."""
        memory = self.encode(source, lengths)
        return self.decode(target, memory, None if lengths is None else self.encoded_lengths(lengths))

    def forward(self, source: Tensor, lengths: Tensor | None, target: Tensor) -> Tensor:
        """source (B, S, M), its lengths (B,), target (B, T) -> logits (B, T, V) of what follows each token."""
        logits: Tensor = self.head(self.hidden(source, lengths, target))
        return logits


PRESETS = {"tiny": LASConfig(features=8, vocabulary=12, context=20, layers=2, width=16, attention_width=8, filters=2, kernel=3)}
