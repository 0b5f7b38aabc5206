"""Recurrent language model (Mikolov et al., 2010): an embedding, stacked recurrent layers, a head, and the dropout that made it strong.

Variational dropout (Gal & Ghahramani, 2016, arXiv:1512.05287) draws one mask for all steps of a window; weight drop and narrower ends:
AWD-LSTM (Merity et al., 2017, arXiv:1708.02182). Shapes: B batch, T time, E embedding width, H width, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch.nn.functional as F
from torch import Tensor, nn

from weft.models.base import ModelConfig, check_shares, check_sizes
from weft.nn.recurrent import RecurrentLayer
from weft.nn.state import RecurrentState


@dataclass(frozen=True, kw_only=True)
class RNNLMConfig(ModelConfig):
    vocabulary: int = 0
    """Number of tokens V; 0 takes it from the data."""
    cell: Literal["rnn", "lstm", "peephole", "coupled", "gru", "cho_gru", "layer_norm", "mogrifier"] = "lstm"
    """Recurrent cell: tanh RNN, LSTM, LSTM with peepholes, with coupled gates, GRU in cuDNN's form or in Cho's, layer-normalised LSTM,
    Mogrifier LSTM."""
    layers: int = 2
    """Number of recurrent layers."""
    width: int = 256
    """Size H of the hidden state; that of the last layer is the embedding's where the two are tied."""
    embedding_width: int = 0
    """Size E of the embedding; 0 is the width."""
    tie_embeddings: bool = True
    """Share the embedding with the output head (Press & Wolf, 2016, arXiv:1608.05859; Inan et al., 2016, arXiv:1611.01462)."""
    embedding_dropout: float = 0.0
    """Share of the vocabulary whose embedding is zeroed in a window, wherever the token stands."""
    input_dropout: float = 0.0
    """Share of the embedding's units zeroed for all steps of a window (variational dropout)."""
    layer_dropout: float = 0.0
    """Share of the units between two layers zeroed for all steps of a window."""
    output_dropout: float = 0.0
    """Share of the last layer's units zeroed for all steps of a window."""
    weight_dropout: float = 0.0
    """Share of the hidden-to-hidden weights zeroed for all steps of a window (DropConnect, weight drop)."""

    def build(self) -> RNNLM:
        return RNNLM(self)


class RNNLM(nn.Module):
    """Next-token logits from the tokens so far, through a state of constant size."""

    token_tables = ("embed.weight", "head.weight", "head.bias")
    """What has a row for each token, and grows where finetuning adds tokens."""

    def __init__(self, config: RNNLMConfig):
        super().__init__()
        c = self.config = config
        check_sizes(c, vocabulary=1, layers=1, width=1, embedding_width=0)
        check_shares(c, "embedding_dropout", "input_dropout", "layer_dropout", "output_dropout", "weight_dropout")
        embedding = c.embedding_width or c.width
        widths = [*[c.width] * (c.layers - 1), embedding if c.tie_embeddings else c.width]
        self.embed = nn.Embedding(c.vocabulary, embedding)
        self.layers = nn.ModuleList(
            RecurrentLayer(c.cell, inputs, width) for inputs, width in zip([embedding, *widths], widths, strict=False)
        )
        self.head = nn.Linear(widths[-1], c.vocabulary)
        nn.init.uniform_(self.embed.weight, -0.1, 0.1)
        nn.init.zeros_(self.head.bias)
        if c.tie_embeddings:
            self.head.weight = self.embed.weight
        else:
            nn.init.uniform_(self.head.weight, -0.1, 0.1)

    def new_state(self) -> RecurrentState:
        """An empty state for `hidden`, in the precision of the weights: h0, c0 of the first layer, and so on."""
        shapes = {f"{name}{number}": shape for number, layer in enumerate(self._layers()) for name, shape in layer.state_shapes.items()}
        return RecurrentState(shapes, self.embed.weight)

    def hidden(self, ids: Tensor, state: RecurrentState | None = None, lengths: Tensor | None = None) -> Tensor:
        """ids (B, T), of which `lengths` (B,) are real -> the last layer's states (B, T, E); with a state, behind what it holds."""
        return self.outputs(ids, state, lengths)[1]

    def outputs(self, ids: Tensor, state: RecurrentState | None = None, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """ids (B, T) -> the last layer's states before and after dropout, both (B, T, E)."""
        c, ends = self.config, dict[str, Tensor]()
        x = self._locked(self._embedded(ids), c.input_dropout)
        raw = x
        for number, layer in enumerate(self._layers()):
            before = {name: state.tensors[f"{name}{number}"] for name in layer.state_shapes} if state else None
            raw, end = layer(x, lengths, before, weight_hh=self._dropped(layer.weight_hh))
            x = self._locked(raw, c.layer_dropout if number < c.layers - 1 else c.output_dropout)
            ends |= {f"{name}{number}": tensor for name, tensor in end.items()}
        if state:
            state.update(**ends)
        return raw, x

    def _layers(self) -> list[Any]:
        return [*self.layers]

    def _embedded(self, ids: Tensor) -> Tensor:
        share, weight = self.config.embedding_dropout, self.embed.weight
        if not self.training or not share:
            return self.embed(ids)  # type: ignore[no-any-return]
        kept = F.dropout(weight.new_ones(len(weight), 1), share)
        return F.embedding(ids, weight) * F.embedding(ids, kept)

    def _locked(self, x: Tensor, share: float) -> Tensor:
        """x (B, T, D), of which the same units are zeroed at all steps."""
        return x * F.dropout(x.new_ones(len(x), 1, x.size(-1)), share) if self.training and share else x

    def _dropped(self, weight: Tensor) -> Tensor | None:
        return F.dropout(weight, self.config.weight_dropout) if self.training and self.config.weight_dropout else None

    def forward(self, ids: Tensor) -> Tensor:
        """ids (B, T) -> logits (B, T, V)."""
        logits: Tensor = self.head(self.hidden(ids))
        return logits


TINY = RNNLMConfig(width=32)
"""Small enough for a test."""
PRESETS = {
    "tiny": TINY,
    "zaremba-medium": RNNLMConfig(
        vocabulary=10_000, width=650, tie_embeddings=False, input_dropout=0.5, layer_dropout=0.5, output_dropout=0.5
    ),
    "awd-lstm": RNNLMConfig(
        vocabulary=10_000,
        layers=3,
        width=1150,
        embedding_width=400,
        embedding_dropout=0.1,
        input_dropout=0.4,
        layer_dropout=0.25,
        output_dropout=0.4,
        weight_dropout=0.5,
    ),
}
