"""Span corruption for a decoder: documents with a masked span moved to their end.

A document, one line of a text, is truncated to a random length; a span of random length, on average a quarter of it, is hidden at a
random position: prefix MASK suffix MASK hidden PAD …. All of that is predicted, character by character. All random numbers
come from the example's key. Batch: ids (B, T - 1), targets (B, T - 1) for a context T.
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
from weft.data.io.encodings import check_encoding
from weft.data.io.files import show
from weft.data.io.text import read_text
from weft.data.split import check_share, hold_out, map_splits
from weft.data.text.biographies import ALPHABET, BiographiesConfig
from weft.data.text.questions import QuestionRow, check_context, drop_unencodable, hold_out_rows, question_dataset, training_rows
from weft.data.text.token_windows import refuse_padding
from weft.data.tokenizers.base import Tokenizer
from weft.data.tokenizers.birthplace_characters import (
    BirthplaceCharacters,
    MaskedSpan,
    PackedRows,
    as_birthplace_characters,
    refuse_special_characters,
    shifted,
)
from weft.data.tokenizers.unknown import without_unknown

SENTENCE_END = re.compile(r"\w\w\.(?= )")
Lengths = Literal["uniform", "half", "gaussian", "binomial", "beta"]


def masked_length(kind: Lengths, length: Tensor, draw: Tensor, key: Tensor, longest: int) -> Tensor:
    """Length of the masked span for length (B,), a quarter on average: draw (B,) in [0, 1) -> (B,), not yet clipped."""
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
    return (length * share).round().to(length.dtype)  # one rounding on every device: a GPU would fuse a product and a sum


def word_edges(texts: list[str]) -> Tensor:
    """For each character of PackedRows.pack(texts), the distances to the beginning and to the end of its word -> (2, M).

    A word is a run of letters and digits; any other character is one by itself.
    """
    parts = [np.zeros((2, 1), dtype=np.int32)]
    for text in texts:
        letter = np.array([character.isalnum() for character in text], dtype=bool)
        begins = np.append(True, ~(letter[1:] & letter[:-1])) if text else letter
        starts, position = np.flatnonzero(begins), np.arange(len(text))
        word = begins.cumsum() - 1
        parts.append(np.stack((position - starts[word], np.append(starts, len(text))[word + 1] - position - 1)).astype(np.int32))
    return torch.from_numpy(np.concatenate([*parts, parts[0]], axis=1))


def first_sentence_length(text: str) -> int:
    """Length of the first sentence, which ends with the first full stop after a word of two letters or more; 0 without one."""
    parts = SENTENCE_END.search(text)
    return parts.end() if parts else 0


class SpanCorruption(Dataset):
    def __init__(self, rows: PackedRows, config: SpanCorruptionConfig, edges: Tensor | None = None, sentence_lengths: Tensor | None = None):
        self.rows, self.config, self.longest = rows, config, config.longest()
        self.edges, self.sentence_lengths = edges, sentence_lengths

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, index: Tensor, key: Tensor) -> Batch:
        config = self.config
        span = self.masked_span(index, key)
        first = span.length + (2 + config.final_mask - config.predicted_tokens) if config.predicted_tokens else None
        return shifted(self.rows.move_hidden_to_end(span, config.context, config.final_mask), first)

    def masked_span(self, index: Tensor, key: Tensor) -> MaskedSpan:
        """The part used of each document, and the span hidden in it."""
        config = self.config
        start, size = self.rows.starts.index_select(0, index), self.rows.sizes.index_select(0, index)
        cut, share, position = random.uniform(random.fold(key, "corruption"), 3).unbind(1)
        length = torch.minimum(size, config.min_length + (cut * (self.longest - config.min_length + 1)).to(size.dtype))
        edge = int(config.keep_ends)
        hidden = masked_length(config.lengths, length, share, key, self.longest).clamp(min=1)
        hidden = torch.minimum(torch.minimum(hidden, (length - 2 * edge).clamp(min=1)), length)
        rest = length - hidden
        before = torch.minimum(edge + (position * (rest + 1 - 2 * edge).clamp(min=1)).to(size.dtype), rest)
        span = MaskedSpan(start, length, before, hidden)
        if self.edges is not None:
            span = self.widen_to_words(span, self.edges)
        return span if self.sentence_lengths is None else self.thin_context(span, self.sentence_lengths.index_select(0, index), key)

    def widen_to_words(self, span: MaskedSpan, edges: Tensor) -> MaskedSpan:
        """The masked span widened to whole words."""
        edge = int(self.config.keep_ends)
        before, after = span.before, span.before + span.hidden
        first = (before - edges[0].index_select(0, span.start + before)).clamp(min=edge)
        last = torch.minimum(after + edges[1].index_select(0, span.start + after - 1), span.length - edge)
        first, last = torch.minimum(first, before), torch.maximum(last, after)  # not widened at the edges of the document
        return MaskedSpan(span.start, span.length, first, last - first)

    def thin_context(self, span: MaskedSpan, first_sentence_length: Tensor, key: Tensor) -> MaskedSpan:
        """Some of the spans with less context: the first sentence, the last characters before the span and the first after it."""
        chosen, left, right = random.uniform(random.fold(key, "thinned"), 3).unbind(1)
        chosen, kind = chosen < self.config.context_dropout, first_sentence_length.dtype
        skipped = torch.where(chosen, (left * ((span.before - first_sentence_length).clamp(min=0) + 1)).to(kind), 0)
        suffix = span.length - span.before - span.hidden
        dropped = torch.where(chosen, (right * (suffix + 1)).to(kind), 0)
        length = span.length - skipped - dropped
        return MaskedSpan(span.start, length, span.before - skipped, span.hidden, (first_sentence_length, skipped))

    def to(self, device: torch.device) -> Dataset:
        edges, sentence_lengths = (None if tensor is None else tensor.to(device) for tensor in (self.edges, self.sentence_lengths))
        return SpanCorruption(self.rows.to(device), self.config, edges, sentence_lengths)

    @property
    def device(self) -> torch.device:
        return self.rows.tokens.device


class MixedQuestions(Dataset):
    """A dataset with a share of its examples replaced by random examples of another."""

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
        return MixedQuestions(self.main.to(device), self.other.to(device), self.share)

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
    """Share of the documents held out for validation where no validation_path is given."""
    encoding: str = ""
    """Encoding of the files, as utf-8, utf-16, gb18030, big5, shift_jis or latin-1; by default a byte-order mark or the bytes tell."""
    context: int = 128
    """Characters per example T, special tokens included."""
    min_length: int = 4
    """Shortest length to which a document is truncated, drawn anew each time."""
    max_length: int = 0
    """Largest one; 0 is seven eighths of the context."""
    lengths: Lengths = "uniform"
    """How much of the length t is hidden: t/8 to 3t/8, 1 to 2(t//4)-1, normal(t/4, t/8), binomial(t, 1/4), or t times Beta(1, 3)."""
    keep_ends: bool = True
    """Hide neither the first nor the last character, where there are three."""
    whole_words: bool = False
    """Widen the masked span to whole words."""
    context_dropout: float = 0.0
    """Share of the examples that keep, besides the first sentence, only some of the characters around the masked span."""
    final_mask: bool = False
    """A third MASK after the masked span, as after an answer."""
    predicted_tokens: int = 0
    """Characters predicted, the last ones before the padding; 0 for all."""
    empty: bool = False
    """Keep empty lines as documents, also the one after the last newline, as the reference does."""
    questions: float = 0.0
    """Share of the examples that are training questions instead."""
    questions_path: str = ""
    """A file with question, tab, place on each line; without a path, the questions about the made-up people."""
    questions_held_out: int = 0
    """Rows of that file held out: as many as when the model is finetuned on questions."""
    questions_seed: int = 0
    """Seed of the choice of held-out rows: the held_out_seed of the questions."""
    biographies: BiographiesConfig = field(default_factory=BiographiesConfig)
    """The people described where no path is given."""

    def build(self) -> Data:
        return self.build_with(None)

    def build_with(self, tokenizer: Tokenizer | None) -> Data:
        self.check()
        problems = Problems(encoding=check_encoding(self.encoding))
        text, other = map_splits(partial(self._text, problems=problems), self.path, self.validation_path or self.path)
        tokenizer = as_birthplace_characters(tokenizer) or BirthplaceCharacters.train(text if self.path else ALPHABET)
        size = len(text.encode("utf-8", errors="replace"))
        (text, unknown), (other, _) = map_splits(partial(without_unknown, tokenizer, problems=problems), text, other)
        if not text.strip():
            raise DataError(f"{show(self.path)}: holds no character that the model knows{problems.summary()}")
        (train, empty), (validation, _) = map_splits(partial(self._documents, problems=problems), text, other)
        if not self.validation_path:
            train_indices, validation_indices = hold_out(np.zeros(len(train), dtype=np.int64), self.validation, problems)
            train, validation = [train[i] for i in train_indices], [train[i] for i in validation_indices]
        refuse_padding(self.context, sum(map(len, train)))
        question_rows = self._questions(tokenizer, problems) if self.questions else []
        info = {
            "vocabulary": tokenizer.size,
            "context": self.context,
            "tokens": self.context - 1,
            "bytes_per_token": size / max(1, len(text)),
            "unknown_per_token": unknown / max(1, len(text)),
            "documents": len(train),
            "validation_documents": len(validation),
            "empty_documents": empty,
            "mixed_questions": len(question_rows),
        }
        first, second = self._dataset(train, tokenizer), self._dataset(validation, tokenizer) if validation else None
        mixed = MixedQuestions(first, question_dataset(question_rows, tokenizer, self.context), self.questions) if question_rows else first
        return Data(mixed, second, info, tokenizer, problems)

    def longest(self) -> int:
        """The largest length: as set, or what leaves room for the special tokens."""
        return self.max_length or min(int(self.context * 7 / 8), self.context - 2 - self.final_mask)

    def check(self) -> None:
        check_context(self.context)
        check_share(self.validation)
        for name, share in (("questions", self.questions), ("context_dropout", self.context_dropout)):
            if not 0.0 <= share <= 1.0:
                raise ConfigError(f"--data.{name} must be from 0 to 1, not {share}")
        if self.questions and self.path and not self.questions_path:
            raise ConfigError("--data.questions mixes questions in, but there are none; name a file of them with --data.questions-path")
        if self.predicted_tokens < 0:
            raise ConfigError(f"--data.predicted_tokens must be at least 0, not {self.predicted_tokens}")
        room = self.context - 2 - self.final_mask
        if not 1 <= self.min_length <= self.longest() <= room:
            raise ConfigError(
                f"--data.min_length is {self.min_length} and --data.max_length {self.longest()}; in a context of {self.context}"
                f" they must be from 1 to {room}, the first no larger than the second"
            )

    def _text(self, path: str, problems: Problems) -> str:
        """The text at a path or, where it is empty, about the made-up people."""
        text = read_text(path, problems) if path else self.biographies.text()
        refuse_special_characters(text)
        return text

    def _documents(self, text: str, problems: Problems) -> tuple[list[str], int]:
        """The lines of a text, and how many were left out as empty; the one after the last newline is not counted as a problem."""
        lines = text.split("\n")
        empty = [number for number, line in enumerate(lines, 1) if not line]
        if self.empty:
            return lines, 0
        for number in empty:
            if number < len(lines):
                problems.add("empty lines, left out", f"line {number}")
        return [line for line in lines if line], len(empty)

    def _dataset(self, lines: list[str], tokenizer: Tokenizer) -> SpanCorruption:
        cut = [line[: self.longest()] for line in lines]
        rows = PackedRows.pack(cut, tokenizer)
        sentence_lengths = (
            torch.tensor([first_sentence_length(line) for line in cut], dtype=rows.sizes.dtype) if self.context_dropout else None
        )
        return SpanCorruption(rows, self, word_edges(cut) if self.whole_words else None, sentence_lengths)

    def _questions(self, tokenizer: Tokenizer, problems: Problems) -> list[QuestionRow]:
        rows = training_rows(self.questions_path, self.biographies, self.context, False, problems)
        rows, _ = hold_out_rows(rows, self.questions_held_out, self.questions_seed, "--data.questions-held-out")
        rows = drop_unencodable(rows, tokenizer, problems)
        if not rows:
            raise DataError(f"{show(self.questions_path or 'biographies')}: every question has a character that the documents lack")
        return rows
