"""Questions whose answer is a span of a paragraph: [CLS] question [SEP] window [SEP] (Devlin et al., 2018).

A paragraph too long for the context is read in overlapping windows. The target of a window without the whole answer, and of every
window of a question without one, is [CLS].

Batch: ids, segments (B, T), segment 1 the window and its [SEP]; lengths (B,); first and last (B,), the positions of the answer's first
and last token, 0 for [CLS].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from weft.core.errors import ConfigError, DataError
from weft.data.annotated.base import AnnotatedConfig
from weft.data.annotated.squad import SpanExample, read_squad
from weft.data.base import Batch, Data, Dataset, Problems
from weft.data.io.files import show
from weft.data.split import map_splits
from weft.data.text.packing import Packed
from weft.data.text.ragged import Ragged
from weft.data.tokenizers.base import Tokenizer
from weft.data.tokenizers.encoder_tokens import special_tokens_of


class SpanWindow(NamedTuple):
    """A question with one window of its paragraph."""

    example: SpanExample
    offsets: np.ndarray
    """First and end character in the paragraph of each token of the window (W, 2)."""
    position: int
    """Position of the window's first token in the sequence."""
    last: bool
    """Whether it is the last window of the paragraph."""

    def text(self, first: int, last: int) -> str:
        """The text of the paragraph from one position of the sequence to another."""
        return self.example.paragraph[self.offsets[first - self.position, 0] : self.offsets[last - self.position, 1]].strip()


class Spans(Dataset):
    def __init__(self, packed: Packed, spans: Tensor, windows: list[SpanWindow]):
        """spans (N, 2): the first and last token of each answer; windows: those of the sequences, in the same order."""
        self.packed, self.spans, self.windows = packed, spans, windows

    def __len__(self) -> int:
        return len(self.windows)

    def batch(self, index: Tensor, key: Tensor) -> Batch:
        first, last = self.spans.index_select(0, index).unbind(1)
        return {**self.packed.rows(index), "first": first, "last": last}

    def to(self, device: torch.device) -> Dataset:
        return Spans(self.packed.to(device), self.spans.to(device), self.windows)

    @property
    def device(self) -> torch.device:
        return self.spans.device


def window_ranges(size: int, limit: int, stride: int) -> list[tuple[int, int]]:
    """Ranges of at most `limit`, each `stride` after the one before or directly adjacent, that cover range(size)."""
    step = min(limit, stride)
    return [(start, min(start + limit, size)) for start in range(0, max(size - limit, 0) + step, step)]


def overlapping_tokens(offsets: np.ndarray, span: tuple[int, int]) -> tuple[int, int] | None:
    """The first and the last token (offsets (N, 2)) that overlap a span of characters; None where none does."""
    tokens = np.flatnonzero((offsets[:, 1] > span[0]) & (offsets[:, 0] < span[1]))
    return (int(tokens[0]), int(tokens[-1])) if len(tokens) else None


@dataclass(frozen=True, kw_only=True)
class SpansConfig(AnnotatedConfig):
    path: str = ""
    """A JSON file (plain or .gz) in the layout of SQuAD, version 1.1 or 2.0."""
    validation_path: str = ""
    """Questions to validate on; by default those about a share of the paragraphs."""
    validation: float = 0.1
    """Share of the paragraphs held out for validation where no validation_path is given; 0 for no validation."""
    context: int = 256
    """Longest sequence of tokens, special tokens included."""
    stride: int = 128
    """Tokens from the beginning of a window to that of the next."""
    max_question_length: int = 64
    """Longest question in tokens; longer ones are truncated. Half of the context is the most."""
    null_score_threshold: float = 0.0
    """Margin by which the score of "no answer" (null) must exceed that of the best answer to be given, where some questions have none."""

    def prepare(
        self, train: list[list[SpanExample]], validation: list[list[SpanExample]], tokenizer: Tokenizer | None, problems: Problems
    ) -> Data:
        texts = [text for group in train for text in (group[0].paragraph, *(example.question for example in group))]
        tokenizer = self.tokens(tokenizer, texts)
        first, second = map_splits(
            lambda part: self.dataset([example for group in part for example in group], tokenizer, problems), train, validation
        )
        if not len(first):
            raise DataError(f"{show(self.path)}: no question has tokens in its paragraph and its answer; is this text?")
        facts: dict[str, Any] = {"tokens": first.packed.ids.longest, "null_score_threshold": self.null_score_threshold}
        for name, part in (("training", first), ("validation", second)):
            facts |= {f"{name}_questions": sum(window.last for window in part.windows), f"{name}_windows": len(part)}
        return self.finish(first, second, tokenizer, problems, facts)

    def check(self) -> None:
        super().check()
        if min(self.stride, self.max_question_length) < 1:
            raise ConfigError(
                f"--data.stride and --data.max_question_length must be at least 1, not {self.stride} and {self.max_question_length}"
            )
        if not math.isfinite(self.null_score_threshold):
            raise ConfigError(f"--data.null_score_threshold must be a finite number, not {self.null_score_threshold}")

    def read(self, path: str, problems: Problems) -> list[list[SpanExample]]:
        """The questions grouped by paragraph, so that whole paragraphs are held out."""
        return read_squad(path, problems)

    def dataset(self, questions: list[SpanExample], tokenizer: Any, problems: Problems) -> Spans:
        """The windows of all questions."""
        special, encoded = special_tokens_of(tokenizer), dict[str, tuple[np.ndarray, np.ndarray]]()
        rows, windows, spans = [np.zeros(0, dtype=np.int64)], list[SpanWindow](), list[tuple[int, int]]()
        for example in questions:
            if example.paragraph not in encoded:
                encoded[example.paragraph] = tokenizer.encode_with_offsets(example.paragraph)
            ids, offsets = encoded[example.paragraph]
            answer = align(example, offsets, problems)
            if answer is None or not len(ids):
                problems.add("questions whose paragraph or answer has no token, left out", example.location)
                continue
            question = self._question_tokens(example, tokenizer, problems)
            position = len(question) + 2
            for start, stop in window_ranges(len(ids), self.context - 1 - position, self.stride):
                rows.append(np.concatenate(((special.cls,), question, (special.sep,), ids[start:stop], (special.sep,))))
                windows.append(SpanWindow(example, offsets[start:stop], position, stop == len(ids)))
                inside = start <= answer[0] and answer[1] < stop
                spans.append((answer[0] - start + position, answer[1] - start + position) if inside else (0, 0))
        sizes = torch.tensor([len(row) for row in rows[1:]], dtype=torch.int64)
        values = torch.from_numpy(np.concatenate(rows).astype(np.int32))
        packed = Packed(
            Ragged(values, sizes, fill=special.padding), torch.tensor([window.position for window in windows], dtype=torch.int64)
        )
        return Spans(packed, torch.tensor(spans, dtype=torch.int64).view(-1, 2), windows)

    def _question_tokens(self, example: SpanExample, tokenizer: Any, problems: Problems) -> np.ndarray:
        """The tokens of a question."""
        ids: np.ndarray = tokenizer.encode(example.question)
        limit = min(self.max_question_length, (self.context - 3) // 2)
        if len(ids) > limit:
            problems.add(f"questions truncated to {limit} tokens", example.location)
        return ids[:limit]


def align(example: SpanExample, offsets: np.ndarray, problems: Problems) -> tuple[int, int] | None:
    """The first and last token of an answer in its paragraph, (-1, -1) for no answer; None where it has no token."""
    if not example.references:
        return -1, -1
    tokens = overlapping_tokens(offsets, example.span)
    if tokens and example.paragraph[offsets[tokens[0], 0] : offsets[tokens[1], 1]].strip() != example.paragraph[slice(*example.span)]:
        problems.add("answers that begin or end inside a token, taken with the whole of it", example.location)
    return tokens
