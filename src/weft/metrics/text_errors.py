"""How near a text comes to a reference: ROUGE (Lin, 2004) and the error rates of words and characters (Levenshtein, 1966).

BLEU is in ngrams.py, exact match and F1 by the rules of SQuAD in squad.py.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np

WORD = re.compile(r"[a-z0-9]+")


def words(text: str) -> list[str]:
    """The words that ROUGE compares: runs of ASCII letters and digits in lower case, not stemmed, as in the package rouge-score."""
    return WORD.findall(text.lower())


def balanced(shared: int, said: int, wanted: int) -> float:
    """F1 where `shared` things are common to those said and those wanted; 0 where there is nothing."""
    return 2 * shared / (said + wanted) if said + wanted else 0.0


def rouge_n(text: str, reference: str, n: int) -> float:
    """F1 over runs of n words, each counted as often as both texts have it."""
    said, wanted = (Counter(tuple(side[i : i + n]) for i in range(len(side) - n + 1)) for side in (words(text), words(reference)))
    return balanced((said & wanted).total(), said.total(), wanted.total())


def rouge_l(text: str, reference: str) -> float:
    """F1 over the longest common subsequence of the words of whole texts."""
    said, wanted = words(text), words(reference)
    return balanced(common_subsequence(said, wanted), len(said), len(wanted))


def rouge(text: str, reference: str) -> dict[str, float]:
    return {"rouge1": rouge_n(text, reference, 1), "rouge2": rouge_n(text, reference, 2), "rougeL": rouge_l(text, reference)}


def common_subsequence(one: Sequence[object], other: Sequence[object]) -> int:
    """Length of the longest sequence that is left of both when some of their elements are crossed out."""
    lengths = [0] * (len(other) + 1)  # of one's beginning so far with each beginning of the other
    for element in one:
        corner = 0
        for place, candidate in enumerate(other, 1):
            above = lengths[place]
            lengths[place] = corner + 1 if element == candidate else max(above, lengths[place - 1])
            corner = above
    return lengths[-1]


def edit_distance(one: Sequence[object], other: Sequence[object]) -> int:
    """The fewest insertions, deletions and substitutions that make one sequence the other."""
    numbers: dict[object, int] = {}
    left, right = (np.array([numbers.setdefault(element, len(numbers)) for element in side], dtype=np.int64) for side in (one, other))
    places = np.arange(len(right) + 1)
    distances = places
    for row, element in enumerate(left, 1):
        free = np.minimum(distances[1:] + 1, distances[:-1] + (right != element))  # deleted, or substituted
        free = np.concatenate([[row], free])
        distances = np.minimum.accumulate(free - places) + places  # or any number of insertions after one of these
    return int(distances[-1])


def word_error_rate(pairs: Iterable[tuple[str, str]]) -> float:
    """Edits of words over words of the references, for pairs of a text and its reference; above 1 where there are more edits."""
    return _error_rate(pairs, str.split)


def character_error_rate(pairs: Iterable[tuple[str, str]]) -> float:
    """The same of characters."""
    return _error_rate(pairs, list)


def _error_rate(pairs: Iterable[tuple[str, str]], cut: Callable[[str], list[str]]) -> float:
    edits = total = 0
    for text, reference in pairs:
        edits, total = edits + edit_distance(cut(text), cut(reference)), total + len(cut(reference))
    if not total:
        return float(edits > 0)
    return edits / total
