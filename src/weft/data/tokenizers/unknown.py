"""Characters that a model does not know: counted, and what becomes of them said."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable

from weft.data.problems import Problems
from weft.data.tokenizers.base import Tokenizer

log = logging.getLogger("weft")
BEYOND = "\U0010ffff"
"""A code point that is no character, now or ever, so that no vocabulary holds it."""


def note_unknown(tokenizer: Tokenizer, pieces: Iterable[str], problems: Problems) -> int:
    """Count the characters without a token of a text in pieces; how many there are."""
    counts = Counter[str]()
    for piece in pieces:
        counts.update(tokenizer.unknown(piece))
    for character, number in counts.most_common():
        problems.add(reason(tokenizer, character), f"{character!r} (U+{ord(character):04X})", number)
    return sum(counts.values())


def without_token(tokenizer: Tokenizer, number: int) -> int:
    """How many of so many unknown characters are left out: all, or none where there is an unknown token."""
    return 0 if not number or len(tokenizer.encode(BEYOND)) else number


def without_unknown(tokenizer: Tokenizer, text: str, problems: Problems) -> tuple[str, int]:
    """The lines of a text without the characters that are left out, which are counted, and how many these are."""
    number = without_token(tokenizer, note_unknown(tokenizer, text.split("\n"), problems))
    characters = set(tokenizer.unknown(text)) - {"\n"} if number else set()
    return text.translate(dict.fromkeys(map(ord, characters))) if characters else text, number


def reason(tokenizer: Tokenizer, character: str) -> str:
    """What becomes of a character without a token."""
    return f"characters that the model does not know, {'read as its unknown token' if len(tokenizer.encode(character)) else 'left out'}"


def warn_unknown(tokenizer: Tokenizer, texts: Iterable[str], what: str) -> None:
    """Say in one line how many characters of some texts a model does not know, if any."""
    problems = Problems()
    if note_unknown(tokenizer, texts, problems):
        log.warning("%s: %s", what, "; ".join(problems.lines()))
