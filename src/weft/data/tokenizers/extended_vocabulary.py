"""Words with an extended vocabulary: unknown words of a source have ids of their own, which mean other words with every source.

The first unknown word of a source has the first id behind the vocabulary, the next other one the second, and so on (See et al., 2017,
arXiv:1704.04368). So a model that copies can answer with words that it never saw.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.core.untrusted import checked
from weft.data.tokenizers.base import WordTokenizer
from weft.data.tokenizers.special_tokens import END, NUM_SPECIAL, Seq2SeqTokenizer

MOST = 1024
"""Unknown words of a source."""


class ExtendedVocabulary(Seq2SeqTokenizer):
    """By itself the tokenizer of sources; `for_source` gives that of the answers to one."""

    name = "extended_vocabulary"
    inner: WordTokenizer

    def __init__(self, inner: WordTokenizer, oov_words: int, source_words: Sequence[str] | None = None):
        """source_words: the unknown words of the source, in order; None where a text is itself the source."""
        super().__init__(inner)
        self.oov_words, self.known = oov_words, self.size
        self.size += oov_words
        self.source_words = None if source_words is None else tuple(source_words[:oov_words])

    def unknown_words(self, text: str) -> list[str]:
        """Each unknown word of a text once, in order."""
        words = zip(self.inner.split(text), self.inner.encode(text).tolist(), strict=True)
        return list(dict.fromkeys(word for word, number in words if not number))

    def for_source(self, source: str) -> ExtendedVocabulary:
        return ExtendedVocabulary(self.inner, self.oov_words, self.unknown_words(source))

    def encode(self, text: str) -> np.ndarray:
        ids, own = super().encode(text), self.source_words
        numbers = {
            word: self.known + number for number, word in enumerate(self.unknown_words(text)[: self.oov_words] if own is None else own)
        }
        words = self.inner.split(text)
        for place in np.flatnonzero(ids == NUM_SPECIAL):
            ids[place] = numbers.get(words[place], NUM_SPECIAL)
        return ids

    def decode(self, ids: list[int]) -> str:
        """The text up to the first END; an id that no word of the source has is the unknown word."""
        stop = ids.index(END) if END in ids else len(ids)
        return self.inner.join(self._word(number) for number in ids[:stop] if number >= NUM_SPECIAL)

    def _word(self, number: int) -> str:
        if number < self.known:
            return self.inner.words[number - NUM_SPECIAL]
        own, place = self.source_words or (), number - self.known
        return own[place] if place < len(own) else WordTokenizer.UNKNOWN

    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), "oov_words": self.oov_words}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> ExtendedVocabulary:
        words = checked(data, {"inner": {"words": [str]}, "oov_words": int})
        if not 0 <= words["oov_words"] <= MOST:
            raise ValueError(f"oov_words must be from 0 to {MOST}, not {words['oov_words']}")
        return cls(WordTokenizer(words["inner"]["words"]), words["oov_words"])
