"""Questions whose answer is a span of a paragraph: [CLS] question [SEP] window [SEP] (Devlin et al., 2018).

A paragraph too long for the context is read in windows that overlap. A window that does not hold the whole answer, and every
window of a question without one, points at [CLS].

Batch: ids, segments (B, T), segment 1 the window and its [SEP]; lengths (B,); first and last (B,), where the answer begins and
ends, 0 for [CLS].
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
from weft.data.annotated.squad import Asked, read_squad
from weft.data.base import Batch, Data, Dataset, Problems
from weft.data.io.files import show
from weft.data.split import both
from weft.data.text.packing import Packed
from weft.data.text.ragged import Ragged
from weft.data.tokenizers.base import Tokenizer
from weft.data.tokenizers.encoder_tokens import marks_of


class Window(NamedTuple):
    """Which question is asked of which part of its paragraph."""

    asked: Asked
    offsets: np.ndarray
    """Characters of the paragraph where each token of the window begins and ends (W, 2)."""
    place: int
    """Of the window's first token in its sequence."""
    last: bool
    """Whether the paragraph ends with it."""

    def text(self, first: int, last: int) -> str:
        """What stands in the paragraph from one token of the sequence to another."""
        return self.asked.paragraph[self.offsets[first - self.place, 0] : self.offsets[last - self.place, 1]].strip()


class Spans(Dataset):
    def __init__(self, packed: Packed, spans: Tensor, windows: list[Window]):
        """spans (N, 2): the first and last token of each answer; windows: where the sequences come from, in the same order."""
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


def cover(size: int, room: int, stride: int) -> list[tuple[int, int]]:
    """Ranges of at most `room`, each `stride` after the one before or directly behind it, that together are all of `size`."""
    step = min(room, stride)
    return [(start, min(start + room, size)) for start in range(0, max(size - room, 0) + step, step)]


def touched(offsets: np.ndarray, span: tuple[int, int]) -> tuple[int, int] | None:
    """The first and the last token (of offsets (N, 2)) that have characters of a span; None where there is none."""
    found = np.flatnonzero((offsets[:, 1] > span[0]) & (offsets[:, 0] < span[1]))
    return (int(found[0]), int(found[-1])) if len(found) else None


@dataclass(frozen=True, kw_only=True)
class SpansConfig(AnnotatedConfig):
    path: str = ""
    """A JSON file (plain or .gz) in the layout of SQuAD, version 1.1 or 2.0."""
    validation_path: str = ""
    """Questions to validate on; by default those about a share of the paragraphs."""
    validation: float = 0.1
    """Share of the paragraphs kept for validation where no validation_path is given; 0 for no validation."""
    context: int = 256
    """Longest sequence of tokens, marks included."""
    stride: int = 128
    """Tokens from the beginning of a window to that of the next."""
    question: int = 64
    """Tokens to which a question is cut; half of the context is the most."""
    threshold: float = 0.0
    """What the score of no answer must exceed the best answer's by to be given, where some questions have none."""

    def prepare(self, train: list[list[Asked]], held: list[list[Asked]], known: Tokenizer | None, problems: Problems) -> Data:
        texts = [text for group in train for text in (group[0].paragraph, *(asked.question for asked in group))]
        tokenizer = self.tokens(known, texts)
        first, second = both(lambda part: self.dataset([asked for group in part for asked in group], tokenizer, problems), train, held)
        if not len(first):
            raise DataError(f"{show(self.path)}: no question has tokens in its paragraph and its answer; is this text?")
        facts: dict[str, Any] = {"tokens": first.packed.ids.longest, "threshold": self.threshold}
        for name, part in (("training", first), ("validation", second)):
            facts |= {f"{name}_questions": sum(window.last for window in part.windows), f"{name}_windows": len(part)}
        return self.finish(first, second, tokenizer, problems, facts)

    def check(self) -> None:
        super().check()
        if min(self.stride, self.question) < 1:
            raise ConfigError(f"--data.stride and --data.question must be at least 1, not {self.stride} and {self.question}")
        if not math.isfinite(self.threshold):
            raise ConfigError(f"--data.threshold must be a finite number, not {self.threshold}")

    def read(self, path: str, problems: Problems) -> list[list[Asked]]:
        """Questions by paragraph, so that none is trained on about a paragraph that is held out."""
        return read_squad(path, problems)

    def dataset(self, questions: list[Asked], tokenizer: Any, problems: Problems) -> Spans:
        """The windows of some questions."""
        marks, encoded = marks_of(tokenizer), dict[str, tuple[np.ndarray, np.ndarray]]()
        rows, windows, spans = [np.zeros(0, dtype=np.int64)], list[Window](), list[tuple[int, int]]()
        for asked in questions:
            if asked.paragraph not in encoded:
                encoded[asked.paragraph] = tokenizer.encode_with_offsets(asked.paragraph)
            ids, offsets = encoded[asked.paragraph]
            answer = align(asked, offsets, problems)
            if answer is None or not len(ids):
                problems.add("questions whose paragraph or answer has no token, left out", asked.place)
                continue
            head = self._head(asked, tokenizer, problems)
            place = len(head) + 2
            for start, stop in cover(len(ids), self.context - 1 - place, self.stride):
                rows.append(np.concatenate(((marks.cls,), head, (marks.sep,), ids[start:stop], (marks.sep,))))
                windows.append(Window(asked, offsets[start:stop], place, stop == len(ids)))
                inside = start <= answer[0] and answer[1] < stop
                spans.append((answer[0] - start + place, answer[1] - start + place) if inside else (0, 0))
        sizes = torch.tensor([len(row) for row in rows[1:]], dtype=torch.int64)
        values = torch.from_numpy(np.concatenate(rows).astype(np.int32))
        packed = Packed(Ragged(values, sizes, fill=marks.padding), torch.tensor([window.place for window in windows], dtype=torch.int64))
        return Spans(packed, torch.tensor(spans, dtype=torch.int64).view(-1, 2), windows)

    def _head(self, asked: Asked, tokenizer: Any, problems: Problems) -> np.ndarray:
        """The tokens of a question."""
        ids: np.ndarray = tokenizer.encode(asked.question)
        most = min(self.question, (self.context - 3) // 2)
        if len(ids) > most:
            problems.add(f"questions cut to {most} tokens", asked.place)
        return ids[:most]


def align(asked: Asked, offsets: np.ndarray, problems: Problems) -> tuple[int, int] | None:
    """The first and last token of an answer among those of its paragraph, (-1, -1) for no answer; None where it has no token."""
    if not asked.references:
        return -1, -1
    found = touched(offsets, asked.span)
    if found and asked.paragraph[offsets[found[0], 0] : offsets[found[1], 1]].strip() != asked.paragraph[slice(*asked.span)]:
        problems.add("answers that begin or end inside a token, taken with the whole of it", asked.place)
    return found
