"""Words between spaces as they stand, for taggers, whose words are given."""

from __future__ import annotations

from collections import Counter

import numpy as np

from weft.data.tokenizers.base import Tokenizer, WordTokenizer


class TaggerWordTokenizer(WordTokenizer):
    """One id for each frequent word; a word that is rare is taken in lower case, and is unknown where that is rare as well."""

    name = "tagger_words"
    PADDING, UNKNOWN_ID, CLS, SEP = range(4)
    SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
    special_tokens = {"padding": PADDING, "unknown": UNKNOWN_ID, "cls": CLS, "sep": SEP}

    @classmethod
    def train(cls, text: str, limit: int = 0) -> Tokenizer:
        """Words that occur once are left out, so that the vector of the unknown word is learned."""
        counts = Counter(text.split())
        frequent = sorted((word for word in counts if counts[word] > 1), key=lambda word: (-counts[word], word))
        return cls([*cls.SPECIAL, *frequent[: (limit or 10_000) - len(cls.SPECIAL)]])

    def encode(self, text: str) -> np.ndarray:
        known = self._ids
        ids = [known.get(word, known.get(word.lower(), self.UNKNOWN_ID)) for word in text.split()]
        return np.array(ids, dtype=np.int64)

    def decode(self, ids: list[int]) -> str:
        return " ".join(self.words[i] for i in ids)
