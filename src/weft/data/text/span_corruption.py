"""Documents with a piece moved to their end, for a decoder to learn what the rest says about it (span corruption).

A document, one line of a text, is cut to a random length; a piece of random length, on average a quarter of it, is hidden at a
random place: prefix MASK suffix MASK hidden PAD …. All of that is predicted, character by character. Every draw comes from the
example's key. Batch: ids (B, T - 1), targets (B, T - 1) for a context T.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from weft.core import random
from weft.core.errors import ConfigError, DataError
from weft.data.base import Batch, Data, DataConfig, Dataset, Problems
from weft.data.io.files import show
from weft.data.split import both, check_share, hold_out
from weft.data.text.biographies import ALPHABET, BiographiesConfig
from weft.data.text.questions import Row, check_context, encodable, hold_rows, questions, training_rows
from weft.data.text.windows import read_text, refuse_padding
from weft.data.tokenizers.base import Tokenizer
from weft.data.tokenizers.birthplace_characters import MarkedCharacters, Piece, Rows, known, refuse_marks, shifted

SENTENCE_END = re.compile(r"\w\w\.(?= )")
Lengths = Literal["uniform", "half", "gaussian", "binomial", "beta"]


def hidden_length(kind: Lengths, length: Tensor, draw: Tensor, key: Tensor, longest: int) -> Tensor:
    """How much of length (B,) to hide, a quarter on average: draw (B,) in [0, 1) -> (B,), before any limit is set."""
    if kind == "half":
        return 1 + (draw * (2 * (length // 4) - 1)).to(length.dtype)
    if kind == "binomial":
        tossed = random.uniform(random.fold(key, "binomial"), longest) < 0.25
        return (tossed & (torch.arange(longest, device=length.device) < length[:, None])).sum(1, dtype=length.dtype)
    if kind == "gaussian":
        share = 0.25 + 0.125 * random.normal(random.fold(key, "gaussian"), 1).squeeze(1)
    elif kind == "beta":
        share = 1.0 - draw ** (1 / 3)  # the inverse of Beta(1, 3)'s distribution function at 1 - draw
    else:
        share = 0.125 + 0.25 * draw
    return (length * share).round().to(length.dtype)  # one rounding on every device: a GPU would join a product and a sum


def word_edges(texts: list[str]) -> Tensor:
    """For each character of Rows.pack(texts), how far back its word begins and how far on it ends -> (2, M).

    A word is a run of letters and digits; any other character is one by itself.
    """
    found = [np.zeros((2, 1), dtype=np.int32)]
    for text in texts:
        letter = np.array([character.isalnum() for character in text], dtype=bool)
        begins = np.append(True, ~(letter[1:] & letter[:-1])) if text else letter
        starts, place = np.flatnonzero(begins), np.arange(len(text))
        word = begins.cumsum() - 1
        found.append(np.stack((place - starts[word], np.append(starts, len(text))[word + 1] - place - 1)).astype(np.int32))
    return torch.from_numpy(np.concatenate([*found, found[0]], axis=1))


def opening(text: str) -> int:
    """Length of the first sentence, which ends with the first full stop after a word of two letters or more; 0 without one."""
    found = SENTENCE_END.search(text)
    return found.end() if found else 0


class SpanCorruption(Dataset):
    def __init__(self, rows: Rows, config: SpanCorruptionConfig, edges: Tensor | None = None, openings: Tensor | None = None):
        self.rows, self.config, self.longest = rows, config, config.most()
        self.edges, self.openings = edges, openings

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, index: Tensor, key: Tensor) -> Batch:
        config = self.config
        piece = self.piece(index, key)
        first = piece.length + (2 + config.closing - config.predicted) if config.predicted else None
        return shifted(self.rows.arrange(piece, config.context, config.closing), first)

    def piece(self, index: Tensor, key: Tensor) -> Piece:
        """Where each document starts, how much of it is used, and what of that is hidden."""
        config = self.config
        start, size = self.rows.starts.index_select(0, index), self.rows.sizes.index_select(0, index)
        cut, share, place = random.uniform(random.fold(key, "corruption"), 3).unbind(1)
        length = torch.minimum(size, config.shortest + (cut * (self.longest - config.shortest + 1)).to(size.dtype))
        edge = int(config.inside)
        hidden = hidden_length(config.lengths, length, share, key, self.longest).clamp(min=1)
        hidden = torch.minimum(torch.minimum(hidden, (length - 2 * edge).clamp(min=1)), length)
        rest = length - hidden
        before = torch.minimum(edge + (place * (rest + 1 - 2 * edge).clamp(min=1)).to(size.dtype), rest)
        piece = Piece(start, length, before, hidden)
        if self.edges is not None:
            piece = self.whole_words(piece, self.edges)
        return piece if self.openings is None else self.thinned(piece, self.openings.index_select(0, index), key)

    def whole_words(self, piece: Piece, edges: Tensor) -> Piece:
        """What is hidden, widened to where its first word begins and its last one ends."""
        edge = int(self.config.inside)
        before, after = piece.before, piece.before + piece.hidden
        first = (before - edges[0].index_select(0, piece.start + before)).clamp(min=edge)
        last = torch.minimum(after + edges[1].index_select(0, piece.start + after - 1), piece.length - edge)
        first, last = torch.minimum(first, before), torch.maximum(last, after)  # at an edge of the document it stays as it is
        return Piece(piece.start, piece.length, first, last - first)

    def thinned(self, piece: Piece, opening: Tensor, key: Tensor) -> Piece:
        """Some of the pieces with less around what is hidden: their opening, the last characters before it and the first after it."""
        chosen, left, right = random.uniform(random.fold(key, "thinned"), 3).unbind(1)
        chosen, kind = chosen < self.config.thinned, opening.dtype
        left_out = torch.where(chosen, (left * ((piece.before - opening).clamp(min=0) + 1)).to(kind), 0)
        suffix = piece.length - piece.before - piece.hidden
        dropped = torch.where(chosen, (right * (suffix + 1)).to(kind), 0)
        length = piece.length - left_out - dropped
        return Piece(piece.start, length, piece.before - left_out, piece.hidden, (opening, left_out))

    def to(self, device: torch.device) -> Dataset:
        edges, openings = (None if held is None else held.to(device) for held in (self.edges, self.openings))
        return SpanCorruption(self.rows.to(device), self.config, edges, openings)

    @property
    def device(self) -> torch.device:
        return self.rows.tokens.device


class Mixed(Dataset):
    """The examples of one data set, a share of them replaced by random examples of another."""

    def __init__(self, main: Dataset, other: Dataset, share: float):
        self.main, self.other, self.share = main, other, share

    def __len__(self) -> int:
        return len(self.main)

    def batch(self, index: Tensor, key: Tensor) -> Batch:
        replaced, number = random.uniform(random.fold(key, "mixed"), 2).unbind(1)
        main, other = self.main.batch(index, key), self.other.batch((number * len(self.other)).long(), key)
        chosen = (replaced < self.share)[:, None]
        return {name: torch.where(chosen, other[name], main[name]) for name in main}

    def to(self, device: torch.device) -> Dataset:
        return Mixed(self.main.to(device), self.other.to(device), self.share)

    @property
    def device(self) -> torch.device:
        return self.main.device


@dataclass(frozen=True, kw_only=True)
class SpanCorruptionConfig(DataConfig):
    path: str = ""
    """A text with a document on each line; empty takes the made-up people of `biographies`."""
    validation_path: str = ""
    """Documents to validate on; by default a share of the others."""
    validation: float = 0.0
    """Share of the documents kept for validation where no validation_path is given."""
    context: int = 128
    """Characters per example T, marks included."""
    shortest: int = 4
    """Smallest length to which a document is cut."""
    longest: int = 0
    """Largest one; 0 is seven eighths of the context."""
    lengths: Lengths = "uniform"
    """How much of the length t is hidden: t/8 to 3t/8, 1 to 2(t//4)-1, normal(t/4, t/8), binomial(t, 1/4), or t times Beta(1, 3)."""
    inside: bool = True
    """Hide neither the first nor the last character, where there are three."""
    words: bool = False
    """Hide whole words: the piece is widened to where its first one begins and its last one ends."""
    thinned: float = 0.0
    """Share of the examples that keep, beside their first sentence, only some of the characters around what is hidden."""
    closing: bool = False
    """A third MASK after what was hidden, as after an answer."""
    predicted: int = 0
    """Characters predicted, the last ones before the padding; 0 for all."""
    empty: bool = False
    """Keep empty lines as documents, also the one after the last newline, as the reference does."""
    questions: float = 0.0
    """Share of the examples that are training questions instead."""
    questions_path: str = ""
    """A file with question, tab, place on each line; without a path, the questions about the made-up people."""
    questions_held: int = 0
    """Rows of that file never shown: as many as are held when the model learns to answer."""
    questions_seed: int = 0
    """Chooses those rows: the held_seed of the questions."""
    biographies: BiographiesConfig = field(default_factory=BiographiesConfig)
    """The people described where no path is given."""

    def build(self) -> Data:
        return self.build_with(None)

    def build_with(self, tokenizer: Tokenizer | None) -> Data:
        self.check()
        problems = Problems()
        text, other = both(partial(self._text, problems=problems), self.path, self.validation_path or self.path)
        tokenizer = known(tokenizer) or MarkedCharacters.train(text if self.path else ALPHABET)
        (train, empty), (held, _) = both(partial(self._documents, problems=problems), text, other)
        if not self.validation_path:
            kept, aside = hold_out(np.zeros(len(train), dtype=np.int64), self.validation, problems)
            train, held = [train[i] for i in kept], [train[i] for i in aside]
        refuse_padding(self.context, sum(map(len, train)))
        asked = self._questions(tokenizer, problems) if self.questions else []
        info = {
            "vocabulary": tokenizer.size,
            "context": self.context,
            "tokens": self.context - 1,
            "bytes_per_token": len(text.encode("utf-8", errors="replace")) / len(text),
            "documents": len(train),
            "validation_documents": len(held),
            "empty_documents": empty,
            "mixed_questions": len(asked),
        }
        first, second = self._dataset(train, tokenizer), self._dataset(held, tokenizer) if held else None
        mixed = Mixed(first, questions(asked, tokenizer, self.context), self.questions) if asked else first
        return Data(mixed, second, info, tokenizer, problems)

    def most(self) -> int:
        """The largest length that is used: as set, or as large as leaves room for the marks."""
        return self.longest or min(int(self.context * 7 / 8), self.context - 2 - self.closing)

    def check(self) -> None:
        check_context(self.context)
        check_share(self.validation)
        for name, share in (("questions", self.questions), ("thinned", self.thinned)):
            if not 0.0 <= share <= 1.0:
                raise ConfigError(f"--data.{name} must be from 0 to 1, not {share}")
        if self.questions and self.path and not self.questions_path:
            raise ConfigError("--data.questions mixes questions in, but there are none; name a file of them with --data.questions-path")
        if self.predicted < 0:
            raise ConfigError(f"--data.predicted must be at least 0, not {self.predicted}")
        room = self.context - 2 - self.closing
        if not 1 <= self.shortest <= self.most() <= room:
            raise ConfigError(
                f"--data.shortest is {self.shortest} and --data.longest {self.most()}; in a context of {self.context}"
                f" they must be from 1 to {room}, the first no larger than the second"
            )

    def _text(self, path: str, problems: Problems) -> str:
        """The text at a path or, where it is empty, about the made-up people."""
        text = read_text(path, problems) if path else self.biographies.text()
        refuse_marks(text)
        return text

    def _documents(self, text: str, problems: Problems) -> tuple[list[str], int]:
        """The lines of a text, and how many were left out as empty; the one that follows the last newline is no flaw."""
        lines = text.split("\n")
        empty = [number for number, line in enumerate(lines, 1) if not line]
        if self.empty:
            return lines, 0
        for number in empty:
            if number < len(lines):
                problems.add("empty lines, left out", f"line {number}")
        return [line for line in lines if line], len(empty)

    def _dataset(self, lines: list[str], tokenizer: Tokenizer) -> SpanCorruption:
        cut = [line[: self.most()] for line in lines]
        rows = Rows.pack(cut, tokenizer)
        openings = torch.tensor([opening(line) for line in cut], dtype=rows.sizes.dtype) if self.thinned else None
        return SpanCorruption(rows, self, word_edges(cut) if self.words else None, openings)

    def _questions(self, tokenizer: Tokenizer, problems: Problems) -> list[Row]:
        rows = training_rows(self.questions_path, self.biographies, self.context, False, problems)
        rows, _ = hold_rows(rows, self.questions_held, self.questions_seed, "--data.questions-held")
        rows = encodable(rows, tokenizer, problems)
        if not rows:
            raise DataError(f"{show(self.questions_path or 'biographies')}: every question has a character that the documents lack")
        return rows
