"""Exact match and F1 of answers as text, by the rules of SQuAD's official script, version 2.0 (Rajpurkar et al., 2018).

Texts are compared in lower case, without punctuation, articles and superfluous space; of several references the best counts.
The right answer to a question without one is the empty text.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

ARTICLE = re.compile(r"\b(a|an|the)\b")
PUNCTUATION = str.maketrans("", "", string.punctuation)


class Answered(NamedTuple):
    """What a model says to a question, and what people said."""

    references: tuple[str, ...]
    """Nothing for a question without an answer."""
    text: str
    """Empty for no answer."""
    best: str
    """The best answer, whether or not it is given."""
    doubt: float
    """By how much the score of no answer exceeds that of the best."""


def normalise(text: str) -> str:
    return " ".join(ARTICLE.sub(" ", text.lower().translate(PUNCTUATION)).split())


def plain(references: Sequence[str]) -> list[str]:
    """The references of which something is left; the empty text where there is none."""
    return [text for text in map(normalise, references) if text] or [""]


def exact(text: str, references: Sequence[str]) -> float:
    """1 where a text is one of the references, else 0."""
    return float(normalise(text) in plain(references))


def f1(text: str, references: Sequence[str]) -> float:
    """The harmonic mean of precision and recall over words, for the reference where it is greatest."""
    return max(_f1(normalise(text).split(), reference.split()) for reference in plain(references))


def _f1(said: list[str], right: list[str]) -> float:
    if not said or not right:
        return float(said == right)
    shared = sum((Counter(said) & Counter(right)).values())
    return 2 * shared / (len(said) + len(right))


def score(answered: Sequence[Answered]) -> dict[str, float]:
    """The numbers of the official script; of both kinds of question where some have no answer, and what the best threshold gives."""
    found = _means(answered, "")
    answerable = [one for one in answered if one.references]
    if len(answerable) < len(answered):
        found |= _means(answerable, "answerable_") | _means([one for one in answered if not one.references], "unanswerable_")
        found |= best_threshold(answered)
    return found


def _means(answered: Sequence[Answered], prefix: str) -> dict[str, float]:
    number = max(1, len(answered))
    return {
        f"{prefix}exact_match": sum(exact(one.text, one.references) for one in answered) / number,
        f"{prefix}f1": sum(f1(one.text, one.references) for one in answered) / number,
    }


def best_threshold(answered: Sequence[Answered]) -> dict[str, float]:
    """The threshold of doubt with the greatest F1, and that F1: an answer is given while the doubt does not exceed it."""
    total = best = float(sum(not one.references for one in answered))  # giving no answer at all
    ordered = sorted(answered, key=lambda one: one.doubt)
    threshold = ordered[0].doubt - 1.0
    for place, one in enumerate(ordered):
        total += f1(one.best, one.references) - (not one.references)
        apart = place + 1 == len(ordered) or ordered[place + 1].doubt > one.doubt
        if apart and total > best:
            best, threshold = total, one.doubt
    return {"best_f1": best / len(answered), "best_threshold": threshold}
