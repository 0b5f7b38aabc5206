"""Tokenizers of sequence-to-sequence models, with the special tokens padding, start and end."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.core import registry
from weft.data.tokenizers.base import Tokenizer

PAD, START, END = 0, 1, 2
NUM_SPECIAL = 3
"""Number of special tokens; the ids of the inner tokenizer follow them."""


class Seq2SeqTokenizer(Tokenizer):
    """Another tokenizer with its ids shifted by three, after PAD, START and END."""

    name = "seq2seq"
    start, end = START, END

    def __init__(self, inner: Tokenizer):
        self.inner = inner
        self.size = inner.size + NUM_SPECIAL

    def encode(self, text: str) -> np.ndarray:
        return self.inner.encode(text).astype(np.int64) + NUM_SPECIAL

    def unknown(self, text: str) -> str:
        return self.inner.unknown(text)

    def decode(self, ids: list[int]) -> str:
        """The text up to the first END, without special tokens."""
        stop = ids.index(END) if END in ids else len(ids)
        return self.inner.decode([i - NUM_SPECIAL for i in ids[:stop] if i >= NUM_SPECIAL])

    def to_json(self) -> dict[str, Any]:
        return {"type": self.name, "inner": self.inner.to_json()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Seq2SeqTokenizer:
        inner: Tokenizer = registry.find("tokenizers", data["inner"]["type"]).from_json(data["inner"])
        return cls(inner)


class ForeignSeq2SeqTokenizer(Seq2SeqTokenizer):
    """A foreign tokenizer of an encoder-decoder model, with ids of its own as start and end of targets."""

    name = "foreign_seq2seq"

    def __init__(self, inner: Tokenizer, start: int, end: int):
        self.inner, self.start, self.end = inner, start, end  # type: ignore[misc]
        self.size = inner.size

    def encode(self, text: str) -> np.ndarray:
        return self.inner.encode(text).astype(np.int64)

    def decode(self, ids: list[int]) -> str:
        """The text up to the first end token, without start tokens."""
        stop = ids.index(self.end) if self.end in ids else len(ids)
        return self.inner.decode([i for i in ids[:stop] if i != self.start])

    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), "start": self.start, "end": self.end}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> ForeignSeq2SeqTokenizer:
        inner: Tokenizer = registry.find("tokenizers", data["inner"]["type"]).from_json(data["inner"])
        return cls(inner, int(data["start"]), int(data["end"]))
