"""Recurrent encoder and decoder (Sutskever et al., 2014, arXiv:1409.3215; Cho et al., 2014, arXiv:1406.1078), with attention between
them or without (Bahdanau et al., 2014, arXiv:1409.0473; Luong et al., 2015, arXiv:1508.04025).

The decoder begins in the encoder's last state. Without attention that is all it knows of the source: a memory of fixed size. With it, it
looks at the encoder's outputs after each step too.

Shapes: B batch, S source time, T target time, E embedding width, W width of the decoder, M of the encoder, L layers of the decoder,
N tensors of a cell's state (1, or 2 of an LSTM), O width that the head reads, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

from weft.core.errors import ConfigError
from weft.models.base import ModelConfig, check_shares, check_sizes
from weft.nn import init
from weft.nn.dropout import Dropout
from weft.nn.recurrent import CELLS, Recurrent
from weft.nn.rnn_attention import RNNAttention
from weft.nn.state import EncoderDecoderState, RecurrentState

FED = "attentional"
"""Name, among the tensors of the decoder's state, of what input feeding hands from step to step."""


@dataclass(frozen=True, kw_only=True)
class RNNSeq2SeqConfig(ModelConfig):
    vocabulary: int = 0
    """Number of tokens V, of source and target together; 0 takes it from the data."""
    cell: Literal["rnn", "lstm", "peephole", "coupled", "gru", "cho_gru", "layer_norm", "mogrifier"] = "lstm"
    """Recurrent cell of encoder and decoder."""
    layers: int = 1
    """Layers of the encoder."""
    decoder_layers: int = 0
    """Layers L of the decoder; 0 is as many as the encoder has."""
    width: int = 256
    """Size W of the decoder's states."""
    encoder_width: int = 0
    """Size M of the encoder's states, of both directions together; 0 is as wide as the decoder's."""
    embedding_width: int = 0
    """Size E of the embeddings; 0 is the width."""
    bidirectional: bool = True
    """Read the source from both sides, with half of the width each."""
    attention: Literal["none", "dot", "scaled_dot", "bilinear", "additive"] = "additive"
    """How a decoder's state and an encoder's are scored, or none."""
    attention_width: int = 0
    """Width of the sum inside the additive score; 0 is the width."""
    input_feeding: bool = False
    """Give each step what the last step was to be told by (Luong et al., 2015); the steps of a target are then taken one by one."""
    tie_embeddings: bool = False
    """Share one table between source embedding, target embedding and output head."""
    dropout: float = 0.0
    """Share of the embeddings, of what goes from layer to layer and of what the head reads, zeroed in training."""

    def build(self) -> RNNSeq2Seq:
        return RNNSeq2Seq(self)


class RNNDecoder(nn.Module):
    """A recurrent network whose states look at those of an encoder, and what becomes of both: tanh(C [found; state])."""

    def __init__(self, config: RNNSeq2SeqConfig):
        super().__init__()
        c = config
        inputs, memory = c.embedding_width or c.width, c.encoder_width or c.width
        self.output = inputs if c.tie_embeddings else c.width
        self.feeding, self.dropout = c.input_feeding, Dropout(c.dropout)
        layers = c.decoder_layers or c.layers
        self.recurrent = Recurrent(c.cell, inputs + self.output * c.input_feeding, c.width, layers, dropout=c.dropout)
        self.cross = None if c.attention == "none" else RNNAttention(c.attention, c.width, memory, c.attention_width)
        seen = c.width + (memory if self.cross else 0)
        self.combine = nn.Linear(seen, self.output, bias=False) if self.cross or self.output != c.width else None

    def forward(
        self, x: Tensor, state: dict[str, Tensor], keys: Tensor, values: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """x (B, T, E), state (B, L, W) each, keys and values (B, S, M), mask (B, S) -> (B, T, O), state after the last step."""
        if not self.feeding:
            hidden, state = self.recurrent(x, None, state)
            return self.look(hidden, keys, values, mask), state
        fed, state, steps = state[FED], {name: held for name, held in state.items() if name != FED}, []
        for step in x.unbind(1):
            hidden, state = self.recurrent(torch.cat([step, fed], -1)[:, None], None, state)
            steps.append(self.look(hidden, keys, values, mask))
            fed = steps[-1][:, 0]
        return torch.cat(steps, 1), {**state, FED: fed}

    def look(self, hidden: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """States (B, T, W), with what they find in the source -> (B, T, O)."""
        if self.cross:
            hidden = torch.cat([self.cross(hidden, keys, values, mask)[0], hidden], -1)
        out: Tensor = self.dropout(hidden if self.combine is None else torch.tanh(self.combine(hidden)))
        return out


class RNNSeq2Seq(nn.Module):
    """Logits of the next target token from the source and the targets so far."""

    causal = False
    """It answers a source; it cannot continue a text by itself."""

    def __init__(self, config: RNNSeq2SeqConfig):
        super().__init__()
        c = self.config = config
        check(c)
        embedding, self.memory_width = c.embedding_width or c.width, c.encoder_width or c.width
        directions, self.layers = 1 + c.bidirectional, c.decoder_layers or c.layers
        self.embed = nn.Embedding(c.vocabulary, embedding)
        self.target_embed = self.embed if c.tie_embeddings else nn.Embedding(c.vocabulary, embedding)
        self.dropout = Dropout(c.dropout)
        each = self.memory_width // directions
        self.encoder = Recurrent(c.cell, embedding, each, c.layers, bidirectional=c.bidirectional, dropout=c.dropout)
        self.decoder = RNNDecoder(c)
        self.names = tuple(self.decoder.recurrent.state_shapes)
        self.rows = len(self.names) * self.layers
        """How many states of a memory stand before those that attention looks at: the encoder's last, N for each layer of the decoder."""
        self.bridge = nn.ModuleDict({name: nn.Linear(self.memory_width, c.width) for name in self.names if self.memory_width != c.width})
        self.head = nn.Linear(self.decoder.output, c.vocabulary)
        if c.tie_embeddings:
            self.head.weight = self.embed.weight
        self._initialise()

    def _initialise(self) -> None:
        """Recurrent layers and scores begin as their own rooms say; embeddings have the length one, products Xavier's variance."""
        for name, parameter in self.named_parameters():
            if name.endswith("embed.weight"):
                init.normal(parameter, parameter.size(1) ** -0.5)
            elif name.startswith(("head.", "bridge.", "decoder.combine.")):
                init.xavier_uniform(parameter) if parameter.ndim == 2 else nn.init.zeros_(parameter)

    def new_state(self) -> EncoderDecoderState:
        """An empty state for `decode`, in the precision of the weights."""
        shapes = dict(self.decoder.recurrent.state_shapes)
        if self.config.input_feeding:
            shapes[FED] = (self.decoder.output,)
        return EncoderDecoderState(RecurrentState(shapes, self.embed.weight))

    def encoded_lengths(self, lengths: Tensor) -> Tensor:
        """Lengths of sources (B,) -> of their memories: the last states, and behind them one for each token where there is attention."""
        return self.rows + (lengths if self.decoder.cross else torch.zeros_like(lengths))

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> Tensor:
        """source (B, S), lengths (B,) -> memory (B, N L, M), with attention (B, N L + S, M). Tokens from lengths on are padding."""
        outputs, last = self.encoder(self.dropout(self.embed(source)), lengths)
        states = [last[name].reshape(len(source), self.config.layers, self.memory_width) for name in self.names]
        top = [max(0, self.config.layers - self.layers + layer) for layer in range(self.layers)]
        memory = torch.stack([each[:, layer] for each in states for layer in top], 1)  # by numbers: a list would be sent to the device
        return torch.cat([memory, outputs], 1) if self.decoder.cross else memory

    def decode(self, target: Tensor, memory: Tensor, lengths: Tensor | None = None, state: EncoderDecoderState | None = None) -> Tensor:
        """target (B, T), memory as `encode` gives it, its `encoded_lengths` (B,) -> what the head reads (B, T, O).

        With a state, the targets stand behind what it holds.
        """
        values, mask = memory[:, self.rows :], None
        if lengths is not None and self.decoder.cross:
            mask = torch.arange(values.size(1), device=memory.device) < (lengths - self.rows)[:, None]
        project = partial(self._projected, values)
        keys, _ = state.cross(0, project) if state else project()
        begin = self._begin(memory)
        if state:
            assert isinstance(state.decoder, RecurrentState)
            fresh = [not length for length in state.lengths]
            if not any(fresh):
                begin = {name: state.decoder.tensors[name] for name in begin}
            elif not all(fresh):
                begun = torch.tensor(fresh, device=memory.device)
                begin = {
                    name: torch.where(begun.view(-1, *(1,) * (first.ndim - 1)), first, state.decoder.tensors[name])
                    for name, first in begin.items()
                }
        out: Tensor
        out, after = self.decoder(self.dropout(self.target_embed(target)), begin, keys, values, mask)
        if state:
            state.decoder.update(**after)  # type: ignore[union-attr]
        return out

    def _projected(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values (B, S, M) of the source."""
        keys: Tensor = self.decoder.cross.project(values) if self.decoder.cross else values
        return keys, values

    def _begin(self, memory: Tensor) -> dict[str, Tensor]:
        """The decoder's first state, which a memory begins with."""
        found = dict(zip(self.names, memory[:, : self.rows].chunk(len(self.names), 1), strict=True))
        for name, bridge in self.bridge.items():
            found[name] = torch.tanh(bridge(found[name])) if name == "h" else bridge(found[name])
        if self.config.input_feeding:
            found[FED] = memory.new_zeros(len(memory), self.decoder.output)
        return found

    def hidden(self, source: Tensor, lengths: Tensor | None, target: Tensor) -> Tensor:
        """source (B, S), its lengths (B,), target (B, T) -> what the head reads at each target (B, T, O)."""
        memory = self.encode(source, lengths)
        return self.decode(target, memory, None if lengths is None else self.encoded_lengths(lengths))

    def forward(self, source: Tensor, lengths: Tensor | None, target: Tensor) -> Tensor:
        """source (B, S), its lengths (B,), target (B, T) -> logits (B, T, V) of what follows each target."""
        logits: Tensor = self.head(self.hidden(source, lengths, target))
        return logits


def check(c: RNNSeq2SeqConfig) -> None:
    """Refuse settings that make no model."""
    check_sizes(c, vocabulary=1, layers=1, decoder_layers=0, width=1, encoder_width=0, embedding_width=0, attention_width=0)
    check_shares(c, "dropout")
    if c.cell not in CELLS:
        raise ConfigError(f"--model.cell is {c.cell!r}; there are {', '.join(CELLS)}")
    if c.bidirectional and (c.encoder_width or c.width) % 2:
        name = "encoder_width" if c.encoder_width else "width"
        raise ConfigError(f"--model.{name} {c.encoder_width or c.width} is odd, but both directions of the encoder have half of it each")


TINY = RNNSeq2SeqConfig(width=32)
"""Small enough for a test."""
