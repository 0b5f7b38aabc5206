"""Transducer (Graves, 2012, arXiv:1211.3711): an encoder of sound, a network over the tokens said so far, and a joint of both.

At each state of the encoder the joint says the next token, or blank, which is token 0 and goes on to the next state. Its probabilities
depend on all tokens before, unlike those of CTC, and it can say several tokens at one state.

Shapes: B batch, S frames, T states of the encoder, U labels, D width, J width of the joint, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.core.errors import ConfigError
from weft.models.audio.conformer import ConformerConfig
from weft.models.base import check_sizes
from weft.nn import init
from weft.nn.dropout import Dropout
from weft.nn.recurrent import Recurrent

State = dict[str, Tensor]
"""Of the prediction network after some tokens, a row each."""


@dataclass(frozen=True, kw_only=True)
class TransducerConfig(ConformerConfig):
    predictor: Literal["stateless", "lstm", "gru"] = "stateless"
    """Network over the tokens so far: a convolution over the last `history` of them (Ghodsi et al., 2020), or a recurrent one over all."""
    history: int = 2
    """Tokens that a stateless predictor knows."""
    predictor_width: int = 0
    """Width of the embeddings and of the predictor; 0 is that of the encoder."""
    joint_width: int = 0
    """Width J of the joint; 0 is that of the encoder."""
    additive: bool = False
    """Further heads, of a joint that only adds: pruning (--objective.band) learns from them where to look."""

    def build(self) -> Transducer:
        return Transducer(self)


class StatelessPredictor(nn.Module):
    """A convolution over the embeddings of the last tokens, each channel for itself."""

    def __init__(self, width: int, history: int):
        super().__init__()
        self.history = history
        self.convolution = nn.Conv1d(width, width, history, groups=width)
        self.state_shapes = {"before": (history - 1, width)}

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """x (B, T, E), the embeddings before it (B, history - 1, E) -> (B, T, E), state."""
        before = x.new_zeros(len(x), self.history - 1, x.size(2)) if state is None else state["before"]
        x = torch.cat([before.to(x), x], 1)
        return F.relu(self.convolution(x.mT).mT), {"before": x[:, x.size(1) - self.history + 1 :]}


class RecurrentPredictor(nn.Module):
    """A recurrent layer over all tokens."""

    def __init__(self, cell: str, width: int):
        super().__init__()
        self.recurrent = Recurrent(cell, width, width)

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """x (B, T, E) -> (B, T, E), state."""
        out: tuple[Tensor, State] = self.recurrent(x, None, state)
        return out


class Transducer(nn.Module):
    """Logits of the next token, or of blank, at each state of the encoder after each of the tokens."""

    def __init__(self, config: TransducerConfig):
        super().__init__()
        c = self.config = config
        check_sizes(c, history=1, predictor_width=0, joint_width=0)
        self.encoder = c.encoder()
        width, joint = c.predictor_width or c.width, c.joint_width or c.width
        self.embed, self.dropout = nn.Embedding(c.vocabulary, width), Dropout(c.dropout)
        if c.predictor not in ("stateless", "lstm", "gru"):
            raise ConfigError(f"--model.predictor is {c.predictor!r}; there are stateless, lstm and gru")
        self.predictor = StatelessPredictor(width, c.history) if c.predictor == "stateless" else RecurrentPredictor(c.predictor, width)
        self.from_frame, self.from_symbols = nn.Linear(c.width, joint), nn.Linear(width, joint, bias=False)
        self.joint_head = nn.Linear(joint, c.vocabulary)
        if c.additive:
            self.frame_head, self.symbol_head = nn.Linear(c.width, c.vocabulary), nn.Linear(width, c.vocabulary)
        init.normal(self.embed.weight, width**-0.5)
        for layer in (self.from_frame, self.from_symbols, self.joint_head):
            init.xavier_uniform(layer.weight)

    def encoded_lengths(self, lengths: Tensor) -> Tensor:
        """Frames (B,) -> states (B,)."""
        return self.encoder.lengths(lengths)

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> Tensor:
        """source (B, S, M), lengths (B,) -> states (B, T, D)."""
        states: Tensor = self.encoder(source, lengths)
        return states

    def predict(self, ids: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """The start and the tokens after it (B, U + 1), or what follows a state -> states after each (B, U + 1, E), and behind all."""
        out: tuple[Tensor, State] = self.predictor(self.dropout(self.embed(ids)), state)
        return out

    def join(self, frame: Tensor, symbols: Tensor) -> Tensor:
        """What `from_frame` and `from_symbols` made of both sides, which broadcast (…, J) -> logits (…, V)."""
        logits: Tensor = self.joint_head(torch.tanh(frame + symbols))
        return logits

    def additive_logits(self, states: Tensor, predicted: Tensor) -> tuple[Tensor, Tensor]:
        """States of the encoder (B, T, D) and of the predictor (B, U + 1, E) -> logits whose sums are a joint, (B, T, V), (B, U + 1, V)."""
        return self.frame_head(states), self.symbol_head(predicted)

    def forward(self, source: Tensor, lengths: Tensor | None, target: Tensor) -> Tensor:
        """source (B, S, M), lengths (B,), the start and tokens (B, U + 1) -> logits (B, T, U + 1, V)."""
        frames, symbols = self.from_frame(self.encode(source, lengths)), self.from_symbols(self.predict(target)[0])
        return self.join(frames[:, :, None], symbols[:, None])


PRESETS = {"tiny": TransducerConfig(features=8, vocabulary=12, layers=1, heads=2, width=16, kernel=3, subsampling=2)}
