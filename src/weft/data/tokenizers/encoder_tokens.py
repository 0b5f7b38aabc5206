"""Tokens as an encoder such as BERT reads them: between [CLS] and [SEP], each with its place in the text it comes from."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from weft.core import registry
from weft.core.errors import ConfigError, DataError
from weft.data.tokenizers.base import Tokenizer

Unit = Literal["wordpiece", "bert_words"]
LEAST = 8
"""Tokens of the smallest context: three marks, and a few tokens between them."""


class Marks(NamedTuple):
    """Ids of the marks."""

    cls: int
    sep: int
    padding: int
    unknown: int


def marks_of(tokenizer: Tokenizer) -> Marks:
    """The ids of a tokenizer's marks; one that was made for another kind of model is refused."""
    known = getattr(tokenizer, "marks", {})
    missing = [name for name in ("cls", "sep", "padding") if name not in known]
    if missing:
        raise DataError(f"the tokenizer {tokenizer.name!r} has no mark for {', '.join(missing)}; start from a model such as BERT")
    return Marks(known["cls"], known["sep"], known["padding"], known.get("unknown", known["sep"]))


def plain_tokens(given: Tokenizer | None, unit: str, texts: list[str], vocabulary: int) -> Any:
    """The tokenizer of a model that exists already, without its labels or, where there is none, one learned from texts."""
    return getattr(given, "tokens", given) or registry.find("tokenizers", unit).train("\n".join(texts), vocabulary)


def given_or_learned(given: Tokenizer | None, unit: Unit, texts: list[str], vocabulary: int) -> Any:
    """As `plain_tokens`, of an encoder: with the marks that it needs."""
    tokenizer = plain_tokens(given, unit, texts, vocabulary)
    marks_of(tokenizer)
    return tokenizer


def check_context(context: int, vocabulary: int) -> None:
    if context < LEAST or vocabulary < 0:
        raise ConfigError(
            f"--data.context must be at least {LEAST} and --data.vocabulary must not be negative, not {context} and {vocabulary}"
        )
