"""Tokenizers of encoders such as BERT, with the special tokens [CLS], [SEP] and [PAD]."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from weft.core import registry
from weft.core.errors import ConfigError, DataError
from weft.data.tokenizers.base import Tokenizer

Unit = Literal["wordpiece", "bert_words"]
MIN_CONTEXT = 8
"""Tokens of the smallest context: three special tokens, and a few between them."""


class SpecialTokens(NamedTuple):
    """Ids of the special tokens of an encoder."""

    cls: int
    sep: int
    padding: int
    unknown: int


def special_tokens_of(tokenizer: Tokenizer) -> SpecialTokens:
    """The special tokens of an encoder's tokenizer; one without them is refused."""
    ids = getattr(tokenizer, "special_tokens", {})
    missing = [name for name in ("cls", "sep", "padding") if name not in ids]
    if missing:
        raise DataError(f"the tokenizer {tokenizer.name!r} has no special token for {', '.join(missing)}; start from a model such as BERT")
    return SpecialTokens(ids["cls"], ids["sep"], ids["padding"], ids.get("unknown", ids["sep"]))


def base_tokenizer(tokenizer: Tokenizer | None, unit: str, texts: list[str], vocabulary: int) -> Any:
    """The tokenizer of a trained model, without its labels, or else one trained on texts."""
    return getattr(tokenizer, "tokens", tokenizer) or registry.find("tokenizers", unit).train("\n".join(texts), vocabulary)


def encoder_tokenizer(tokenizer: Tokenizer | None, unit: str, texts: list[str], vocabulary: int) -> Any:
    """As `base_tokenizer`, but refused unless it has the special tokens of an encoder."""
    base = base_tokenizer(tokenizer, unit, texts, vocabulary)
    special_tokens_of(base)
    return base


def check_context(context: int, vocabulary: int) -> None:
    if context < MIN_CONTEXT or vocabulary < 0:
        raise ConfigError(
            f"--data.context must be at least {MIN_CONTEXT} and --data.vocabulary must not be negative, not {context} and {vocabulary}"
        )
