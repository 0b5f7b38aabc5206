"""Words between spaces; one that is not in the vocabulary is what it looks like: capital or not, with digits, a hyphen, a known ending."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np

from weft.data.tokenizers.base import Tokenizer, WordTokenizer

ENDINGS = ("ing", "ed", "ly", "tion", "sion", "ment", "ness", "ity", "est", "er", "or", "ive", "ous", "al", "able", "ic", "ist", "es", "s")


def shape(word: str) -> str:
    """Florian -> <Aa>, re-opened -> <a-ed>, 1,234 -> <0>."""
    if re.fullmatch(r"[-+.,:/\\$%\d]*\d[-+.,:/\\$%\d]*", word):
        return "<0>"
    letters = "A" if len(word) > 1 and word.isupper() else "Aa" if word[:1].isupper() else "a"
    digits = "0" if any(map(str.isdigit, word)) else ""
    hyphen = "-" if "-" in word.strip("-") else ""
    ending = next((end for end in ENDINGS if word.lower().endswith(end) and len(word) > len(end) + 2), "")
    return f"<{letters}{digits}{hyphen}{'.' if ending else ''}{ending}>"


class WordShapes(WordTokenizer):
    """One id for each frequent word, and one for each shape; a word that is rare is taken in lower case, then by its shape."""

    name = "word_shapes"

    @classmethod
    def train(cls, text: str, limit: int = 0, min_count: int = 2) -> Tokenizer:
        """Words that occur less often than min_count are learned by their shapes."""
        counts = Counter(text.split())
        shapes = sorted({shape(word) for word in counts})
        frequent = sorted((word for word in counts if counts[word] >= min_count), key=lambda word: (-counts[word], word))
        return cls([cls.UNKNOWN, *shapes, *frequent[: max(0, (limit or 10_000) - 1 - len(shapes))]])

    @staticmethod
    def split(text: str) -> list[str]:
        return text.split()

    def known(self, word: str) -> str:
        """What stands for a word in the vocabulary."""
        return next((each for each in (word, word.lower(), shape(word)) if each in self._ids), self.UNKNOWN)

    def encode(self, text: str) -> np.ndarray:
        return np.array([self._ids[self.known(word)] if self._ids else 0 for word in text.split()], dtype=np.int64)

    def decode(self, ids: list[int]) -> str:
        return " ".join(self.words[i] for i in ids)
