"""A BiLSTM tagger: vectors of words, read in both directions, tell the tag of each (Graves & Schmidhuber, 2005; Huang et al., 2015,
arXiv:1508.01991, without its CRF).

Shapes: B batch, T tokens, D size of a vector, H width, C classes.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from weft.models.base import ModelConfig, check_shares, check_sizes
from weft.nn.dropout import Dropout
from weft.nn.recurrent import Recurrent


@dataclass(frozen=True, kw_only=True)
class TaggerConfig(ModelConfig):
    of_task = ("classes",)

    classes: int = 0
    """Number of tags C; 0 takes it from the data."""
    vocabulary: int = 0
    """Number of tokens; 0 takes it from the data."""
    embedding: int = 100
    """Size D of the vector of a token."""
    width: int = 128
    """Size H of the LSTM, in each direction."""
    layers: int = 1
    """Layers of the LSTM."""
    dropout: float = 0.3
    """Share of the vectors and of the states zeroed in training."""

    def build(self) -> Tagger:
        return Tagger(self)


class TagHead(nn.Module):
    """An LSTM in each direction, and a linear layer from both states of a word to its tags."""

    def __init__(self, inputs: int, width: int, layers: int, classes: int, dropout: float):
        super().__init__()
        self.lstm = Recurrent("lstm", inputs, width, layers, bidirectional=True, dropout=dropout)
        self.linear = nn.Linear(2 * width, classes)
        self.dropout = Dropout(dropout)

    def hidden(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """x (B, T, D), lengths (B,) -> the states of both directions (B, T, 2H)."""
        states: Tensor = self.lstm(self.dropout(x), lengths)[0]
        return states

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """x (B, T, D), lengths (B,) -> class logits (B, T, C)."""
        logits: Tensor = self.linear(self.dropout(self.hidden(x, lengths)))
        return logits


class Tagger(nn.Module):
    """Each token has one vector, whatever stands around it; the LSTM alone sees the context."""

    task_parts = ("tagger.",)
    """What starts afresh when other tags are learned."""

    def __init__(self, config: TaggerConfig):
        super().__init__()
        c = self.config = config
        check_sizes(c, classes=1, vocabulary=1, embedding=1, width=1, layers=1)
        check_shares(c, "dropout")
        self.embed = nn.Embedding(c.vocabulary, c.embedding)
        nn.init.normal_(self.embed.weight, std=c.embedding**-0.5)
        self.tagger = TagHead(c.embedding, c.width, c.layers, c.classes, c.dropout)

    def hidden(self, ids: Tensor, segments: Tensor | None = None, lengths: Tensor | None = None) -> Tensor:
        """ids (B, T), lengths (B,) -> the states of the LSTM (B, T, 2H)."""
        return self.tagger.hidden(self.embed(ids), lengths)

    def tag(self, ids: Tensor, segments: Tensor | None = None, lengths: Tensor | None = None) -> Tensor:
        """ids (B, T), lengths (B,) -> class logits of every token (B, T, C)."""
        logits: Tensor = self.tagger(self.embed(ids), lengths)
        return logits

    def forward(self, ids: Tensor, segments: Tensor | None = None, lengths: Tensor | None = None) -> Tensor:
        """ids (B, T), lengths (B,) -> class logits of every token (B, T, C)."""
        return self.tag(ids, segments, lengths)


TINY = TaggerConfig(embedding=16, width=16)
"""Small enough for a test."""
PRESETS = {"tiny": TINY, "base": TaggerConfig()}
