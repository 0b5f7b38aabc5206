"""ELMo: vectors of words from the layers of a language model read in both directions (Peters et al., 2018, arXiv:1802.05365).

Words come as characters, so that none is unknown. LSTMs with a projection read them from left to right and from right to left, which
predict the next and the previous word; what a task takes is a weighted mean of all layers, gamma * sum of s_j h_j, not the last one alone.

Shapes: B batch, T characters, W words, P projection, L layers, V words to predict, C classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from weft.core.errors import ConfigError
from weft.models.base import ModelConfig, check_shares, check_sizes
from weft.models.language.tagger import TagHead
from weft.nn.characters.cnn import CharacterCNN
from weft.nn.characters.words import CHARACTERS, LONGEST, Words, split_words
from weft.nn.dropout import Dropout
from weft.nn.recurrent import RecurrentLayer, reversed_steps
from weft.nn.scalar_mix import ScalarMix

State = list[dict[str, Tensor]]
"""Of each layer, forward then backward: h (B, P) and c (B, H)."""
LETTERS = 6
"""Characters of a word and its mark, about, where words cannot be counted."""


@dataclass(frozen=True, kw_only=True)
class ELMoConfig(ModelConfig):
    of_task = ("task", "classes", "representation", "frozen", "tagger_width", "tagger_layers", "tagger_dropout")

    task: Literal["pretrain", "tag"] = "pretrain"
    """What it is for: pretrain (the next and the previous word), or tag (each word, by a BiLSTM on its layers)."""
    classes: int = 0
    """Classes of tag; 0 takes it from the data."""
    words: int = 0
    """Number of words V that are predicted; 0 takes it from the data."""
    character_width: int = 16
    """Size of the vector of a character."""
    kernels: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 7)
    """Characters that each kind of convolution sees."""
    filters: tuple[int, ...] = (32, 32, 64, 128, 256, 512, 1024)
    """Filters of each kind."""
    highways: int = 2
    """Highway layers behind the convolutions."""
    layers: int = 2
    """Layers L of LSTMs in each direction."""
    width: int = 4096
    """Size of an LSTM's memory."""
    projection: int = 512
    """Size P of its projected state, and of a word's vector."""
    cell_clip: float = 3.0
    """Bound of the memory; 0 is none."""
    projection_clip: float = 3.0
    """Bound of the projected state; 0 is none."""
    dropout: float = 0.1
    """Share of each layer's inputs and of the last states zeroed in training."""
    representation: Literal["mix", "last", "token"] = "mix"
    """What a task takes: a learned mean of all layers, the last, or the vectors of words by themselves, which know no context."""
    frozen: bool = True
    """Leave the language model as it was pretrained when a task is learned."""
    tagger_width: int = 128
    """Size of the tagger's LSTM, in each direction."""
    tagger_layers: int = 1
    """Layers of the tagger's LSTM."""
    tagger_dropout: float = 0.3
    """Share of the tagger's inputs and states zeroed in training."""

    def build(self) -> ELMo:
        return ELMo(self)


class ELMo(nn.Module):
    """States of words that know what stands before and behind them."""

    task_parts = ("softmax.", "mix.", "tagger.")
    """What starts afresh when a pretrained model learns a task."""
    compile = False  # type: ignore[assignment]  # the number of words is not known before they are read
    capture = False
    static_shapes = False
    """Whether shapes depend on the batch's alone, as plans ask, whose tensors hold no numbers: padding is computed, too."""

    def __init__(self, config: ELMoConfig):
        super().__init__()
        c = self.config = config
        check_sizes(c, character_width=1, highways=0, layers=1, width=1, projection=1, cell_clip=0, projection_clip=0)
        check_shares(c, "dropout", "tagger_dropout")
        if not c.kernels or len(c.kernels) != len(c.filters) or min(*c.kernels, *c.filters) < 1 or max(c.kernels) > LONGEST:
            raise ConfigError(
                f"--model.kernels and --model.filters must be as many numbers of at least 1, kernels of at most {LONGEST}, not "
                f"{c.kernels} and {c.filters}"
            )
        self.token = CharacterCNN(CHARACTERS, c.character_width, c.kernels, c.filters, c.highways, c.projection)
        self.forward_layers, self.backward_layers = self._stack(), self._stack()
        self.dropout = Dropout(c.dropout)
        if c.task == "pretrain":
            check_sizes(c, words=2)
            self.softmax = nn.Linear(c.projection, c.words)
        else:
            check_sizes(c, classes=1, tagger_width=1, tagger_layers=1)
            self.mix = ScalarMix(c.layers + 1) if c.representation == "mix" else None
            self.tagger = TagHead(2 * c.projection, c.tagger_width, c.tagger_layers, c.classes, c.tagger_dropout)
            for part in (self.token, self.forward_layers, self.backward_layers):
                part.requires_grad_(not c.frozen)
        self.train()

    def _stack(self) -> nn.ModuleList:
        c = self.config
        clips = {"cell_clip": c.cell_clip or None, "projection_clip": c.projection_clip or None}
        return nn.ModuleList(RecurrentLayer("lstm", c.projection, c.width, projection=c.projection, **clips) for _ in range(c.layers))

    def train(self, mode: bool = True) -> ELMo:
        super().train(mode)
        if self.config.task != "pretrain" and self.config.frozen:
            self.dropout.eval()  # frozen features have no noise
        return self

    def split_words(self, ids: Tensor, lengths: Tensor | None = None, most: int = 0) -> Words:
        """ids (B, T), lengths (B,) -> words, with as many characters as the widest convolution can tell from more."""
        fixed = (most or ids.size(1) // LETTERS + 2) if self.static_shapes else 0
        return split_words(ids, lengths, max(self.config.kernels), fixed)

    def token_vectors(self, words: Words) -> Tensor:
        """The vectors of words by themselves (B, W, P), 0 where there is none; each different word is computed once."""
        there = words.characters[..., 0] > 0  # (B, W)
        if self.static_shapes:
            every: Tensor = self.token(words.characters.flatten(0, 1))
            return every.view(*there.shape, -1) * there[..., None]
        different, which = torch.unique(words.characters.flatten(0, 1), dim=0, return_inverse=True)  # what is no word is one of them
        return nn.functional.embedding(which.view_as(there), self.token(different)).masked_fill(~there[..., None], 0.0)

    def layer_pairs(self, words: Words, state: State | None = None) -> tuple[list[tuple[Tensor, Tensor]], State]:
        """The forward and the backward states of each layer, each (B, W, P), the token layer first; and the state at each end.

        `state` is that of texts before, which bilm-tf carries from batch to batch. From the second layer on a layer is added to its input.
        """
        forward = backward = self.token_vectors(words)
        found, ends = [(forward, backward)], list[dict[str, Tensor]]()
        for number in range(self.config.layers):
            before = state[2 * number : 2 * number + 2] if state else (None, None)
            ahead, end = self.forward_layers[number](self.dropout(forward), words.lengths, before[0])
            flipped = reversed_steps(self.dropout(backward), words.lengths)
            behind, back_end = self.backward_layers[number](flipped, words.lengths, before[1])
            behind = reversed_steps(behind, words.lengths)
            forward, backward = (ahead + forward, behind + backward) if number else (ahead, behind)
            found.append((forward, backward))
            ends += [end, back_end]
        return found, ends

    def layers_of(self, ids: Tensor, lengths: Tensor | None = None, state: State | None = None) -> tuple[list[Tensor], Words, State]:
        """ids (B, T), lengths (B,) -> the layers of the words, each (B, W, 2P): the token layer twice, then those of both directions."""
        words = self.split_words(ids, lengths)
        pairs, ends = self.layer_pairs(words, state)
        return [torch.cat(pair, dim=-1) for pair in pairs], words, ends

    def hidden(self, ids: Tensor, segments: Tensor | None = None, lengths: Tensor | None = None) -> Tensor:
        """ids (B, T), lengths (B,) -> the last layer's state of the word that each character belongs to (B, T, 2P)."""
        layers, words, _ = self.layers_of(ids, lengths)
        return words.spread(layers[-1])

    def features(self, ids: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Words]:
        """ids (B, T), lengths (B,) -> what a task takes of each word (B, W, 2P), and the words."""
        if self.config.representation == "token":
            words = self.split_words(ids, lengths)
            return self.token_vectors(words).repeat(1, 1, 2), words
        layers, words, _ = self.layers_of(ids, lengths)
        return layers[-1] if self.mix is None else self.mix(layers), words

    def tag(self, ids: Tensor, segments: Tensor | None = None, lengths: Tensor | None = None) -> Tensor:
        """ids (B, T), lengths (B,) -> class logits of the word that each character belongs to (B, T, C)."""
        states, words = self.features(ids, lengths)
        return words.spread(self.tagger(states, words.lengths))

    def forward(self, ids: Tensor, segments: Tensor | None = None, lengths: Tensor | None = None) -> Tensor:
        """ids (B, T), lengths (B,) -> what `tag` tells, or of a model without a task the last states (B, T, …)."""
        return self.hidden(ids, segments, lengths) if self.config.task == "pretrain" else self.tag(ids, segments, lengths)


TINY = ELMoConfig(character_width=4, kernels=(1, 2, 3), filters=(4, 8, 8), width=32, projection=16)
"""Small enough for a test."""
PRESETS: dict[str, Any] = {"tiny": TINY, "original": ELMoConfig(words=793_471)}
