"""Texts as GPT is finetuned on them, between three marks that it has not met before (Radford et al., 2018, section 3.3).

    class of a text     [start] text [extract]
    class of a pair     [start] first [delimiter] second [extract]
    alike or not        the same and, beside it, [start] second [delimiter] first [extract], as neither of them comes first
    choice              [start] context [delimiter] choice [extract], once for each choice

The marks stand behind the vocabulary of the model, which keeps its tokens as they are and learns three more. Batch: ids (B, T)
or, where an example has N sequences, (B, N, T); lengths (B,) or (B, N); label (B,). The mark [extract] fills up.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from weft.core import registry
from weft.core.errors import ConfigError
from weft.data.annotated.base import AnnotatedConfig
from weft.data.annotated.choices import ChoicesConfig
from weft.data.annotated.labelled_texts import LabelledTextsConfig
from weft.data.base import Data, Dataset, Problems
from weft.data.text.packing import Texts
from weft.data.text.windows import Unit
from weft.data.tokenizers.base import Tokenizer
from weft.data.tokenizers.encoder_tokens import plain_tokens

MARKS = ("start", "delimiter", "extract")


class FramedTokenizer(Tokenizer):
    """Another tokenizer with three marks behind its ids. A text that looks like a mark is only text."""

    name = "framed"

    def __init__(self, inner: Tokenizer):
        self.inner = inner
        self.marks = {mark: inner.size + number for number, mark in enumerate(MARKS)}
        self.size = inner.size + len(MARKS)

    @property
    def around(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return self.inner.around

    def encode(self, text: str) -> np.ndarray:
        return self.inner.encode(text)

    def decode(self, ids: list[int]) -> str:
        first, parts = self.inner.size, []
        for marked, group in groupby(ids, lambda number: number >= first):
            run = list(group)
            parts.append("".join(f"[{MARKS[number - first]}]" for number in run) if marked else self.inner.decode(run))
        return "".join(parts)

    def to_json(self) -> dict[str, Any]:
        return {"type": self.name, "inner": self.inner.to_json()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> FramedTokenizer:
        return cls(registry.find("tokenizers", data["inner"]["type"]).from_json(data["inner"]))


@dataclass(frozen=True, kw_only=True)
class FramedConfig(AnnotatedConfig):
    """A source whose texts stand between the three marks."""

    unit: Unit = "byte_bpe"  # type: ignore[assignment]
    """What a token is, where no model says so."""

    def tokens(self, known: Tokenizer | None, texts: list[str]) -> FramedTokenizer:
        plain = plain_tokens(known, self.unit, texts, self.vocabulary)
        return plain if isinstance(plain, FramedTokenizer) else FramedTokenizer(plain)

    def finish(self, train: Dataset, held: Dataset, tokenizer: Tokenizer, problems: Problems, facts: dict[str, Any]) -> Data:
        return super().finish(train, held, tokenizer, problems, {**facts, "added_tokens": len(MARKS)})


@dataclass(frozen=True, kw_only=True)
class FramedTextsConfig(FramedConfig, LabelledTextsConfig):
    both_orders: bool = False
    """Read a pair in both orders, and tell its class from both together, for pairs of which neither text comes first."""

    def sequences(self, texts: Texts) -> tuple[Texts, ...]:
        if not self.both_orders:
            return (texts,)
        if len(texts.parts) == 1:
            raise ConfigError(f"--data.both-orders needs two texts, but {texts.place} has one; name the other with --data.second")
        return texts, texts._replace(parts=texts.parts[::-1])


@dataclass(frozen=True, kw_only=True)
class FramedChoicesConfig(FramedConfig, ChoicesConfig):
    """The settings are those of its parents."""
