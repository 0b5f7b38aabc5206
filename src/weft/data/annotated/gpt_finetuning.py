"""Texts as GPT is finetuned on them, with three new special tokens (Radford et al., 2018, section 3.3).

    class of a text     [start] text [extract]
    class of a pair     [start] first [delimiter] second [extract]
    similarity          the same and, besides, [start] second [delimiter] first [extract], as neither of them comes first
    choice              [start] context [delimiter] choice [extract], once for each choice

The special tokens follow the vocabulary of the model, which keeps its tokens and learns three more. Batch: ids (B, T)
or, where an example has N sequences, (B, N, T); lengths (B,) or (B, N); label (B,). The padding is [extract].
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
from weft.data.text.token_windows import Unit
from weft.data.tokenizers.base import Tokenizer
from weft.data.tokenizers.encoder_tokens import base_tokenizer

SPECIAL_TOKENS = ("start", "delimiter", "extract")


class GPTFinetuningTokenizer(Tokenizer):
    """Another tokenizer with three special tokens after its ids. A text that looks like one is only text."""

    name = "gpt_finetuning"

    def __init__(self, inner: Tokenizer):
        self.inner = inner
        self.special_tokens = {token: inner.size + number for number, token in enumerate(SPECIAL_TOKENS)}
        self.size = inner.size + len(SPECIAL_TOKENS)

    @property
    def around(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return self.inner.around

    def encode(self, text: str) -> np.ndarray:
        return self.inner.encode(text)

    def unknown(self, text: str) -> str:
        return self.inner.unknown(text)

    def decode(self, ids: list[int]) -> str:
        first, parts = self.inner.size, []
        for special, group in groupby(ids, lambda number: number >= first):
            run = list(group)
            parts.append("".join(f"[{SPECIAL_TOKENS[number - first]}]" for number in run) if special else self.inner.decode(run))
        return "".join(parts)

    def to_json(self) -> dict[str, Any]:
        return {"type": self.name, "inner": self.inner.to_json()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> GPTFinetuningTokenizer:
        return cls(registry.find("tokenizers", data["inner"]["type"]).from_json(data["inner"]))


@dataclass(frozen=True, kw_only=True)
class GPTFinetuningDataConfig(AnnotatedConfig):
    """Settings of a source whose texts are framed by the three special tokens."""

    tokenizer: Unit = "byte_bpe"  # type: ignore[assignment]
    """Tokenizer that is trained on the data, where no model brings its own."""

    def tokens(self, tokenizer: Tokenizer | None, texts: list[str]) -> GPTFinetuningTokenizer:
        base = base_tokenizer(tokenizer, self.tokenizer, texts, self.vocabulary)
        return base if isinstance(base, GPTFinetuningTokenizer) else GPTFinetuningTokenizer(base)

    def finish(self, train: Dataset, validation: Dataset, tokenizer: Tokenizer, problems: Problems, facts: dict[str, Any]) -> Data:
        return super().finish(train, validation, tokenizer, problems, {**facts, "added_tokens": len(SPECIAL_TOKENS)})


@dataclass(frozen=True, kw_only=True)
class GPTFinetuningTextsConfig(GPTFinetuningDataConfig, LabelledTextsConfig):
    both_orders: bool = False
    """Read a pair in both orders and classify both together, for pairs of which neither text comes first."""

    def sequences(self, texts: Texts) -> tuple[Texts, ...]:
        if not self.both_orders:
            return (texts,)
        if len(texts.parts) == 1:
            raise ConfigError(f"--data.both-orders needs two texts, but {texts.location} has one; name the other with --data.second")
        return texts, texts._replace(parts=texts.parts[::-1])


@dataclass(frozen=True, kw_only=True)
class GPTFinetuningChoicesConfig(GPTFinetuningDataConfig, ChoicesConfig):
    """The settings are those of its parents."""
