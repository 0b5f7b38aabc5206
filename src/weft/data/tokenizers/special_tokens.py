"""Tokenizers with the marks that a source and a target have around them: where they begin and end, and what fills them up."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.core import registry
from weft.data.tokenizers.base import Tokenizer

PAD, START, END = 0, 1, 2
MARKS = 3
"""Ids taken by the marks; a tokenizer's own ids follow."""


class MarkedTokenizer(Tokenizer):
    """Another tokenizer with its ids moved up by three, to make room for PAD, START and END."""

    name = "pairs"
    start, end = START, END

    def __init__(self, inner: Tokenizer):
        self.inner = inner
        self.size = inner.size + MARKS

    def encode(self, text: str) -> np.ndarray:
        return self.inner.encode(text).astype(np.int64) + MARKS

    def decode(self, ids: list[int]) -> str:
        """The text up to the first END, without marks."""
        until = ids.index(END) if END in ids else len(ids)
        return self.inner.decode([i - MARKS for i in ids[:until] if i >= MARKS])

    def to_json(self) -> dict[str, Any]:
        return {"type": self.name, "inner": self.inner.to_json()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> MarkedTokenizer:
        inner: Tokenizer = registry.find("tokenizers", data["inner"]["type"]).from_json(data["inner"])
        return cls(inner)


class AnsweringTokenizer(MarkedTokenizer):
    """A foreign tokenizer whose own ids a model with an encoder and a decoder begins and ends its targets with."""

    name = "answering"

    def __init__(self, inner: Tokenizer, start: int, end: int):
        self.inner, self.start, self.end = inner, start, end  # type: ignore[misc]
        self.size = inner.size

    def encode(self, text: str) -> np.ndarray:
        return self.inner.encode(text).astype(np.int64)

    def decode(self, ids: list[int]) -> str:
        """The text up to the first mark of the end, without that of the start."""
        until = ids.index(self.end) if self.end in ids else len(ids)
        return self.inner.decode([i for i in ids[:until] if i != self.start])

    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), "start": self.start, "end": self.end}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> AnsweringTokenizer:
        inner: Tokenizer = registry.find("tokenizers", data["inner"]["type"]).from_json(data["inner"])
        return cls(inner, int(data["start"]), int(data["end"]))
