"""Words of a list, and n-grams of characters and of words that are hashed into rows of a table, as fastText does both.

A word is what stands between spaces. fastText's own functions are bound to bytes: FNV-1a with bytes above 127 taken as negative
numbers, n-grams of the word between "<" and ">", n-grams of words chained by a multiplication (Bojanowski et al., 2016).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from weft.core.errors import DataError
from weft.core.untrusted import checked, natural
from weft.data.tokenizers.base import Tokenizer, WordTokenizer

SPACES = re.compile(r"[ \t\n\v\f\r\0]+")
END = "</s>"
"""The token behind the last word."""
LABEL = "__label__"
BASIS, PRIME, CHAIN = 2166136261, 16777619, 116049371
MOST = 1 << 24
"""Buckets."""


def hashed(data: bytes, start: int = BASIS) -> int:
    """FNV-1a of 32 bits."""
    for byte in data:
        start = (start ^ (byte if byte < 128 else byte | 0xFFFFFF00)) * PRIME & 0xFFFFFFFF
    return start


def character_ngrams(word: str, shortest: int, longest: int) -> Iterator[int]:
    """Hashes of the n-grams of "<word>", by where they begin and then by length; "<" and ">" alone are none."""
    letters = [letter.encode("utf-8", errors="replace") for letter in f"<{word}>"]
    for first in range(len(letters)):
        value = BASIS
        for size, letter in enumerate(letters[first : first + longest], 1):
            value = hashed(letter, value)
            if size >= shortest and not (size == 1 and first in (0, len(letters) - 1)):
                yield value


def word_ngrams(hashes: Sequence[int], longest: int) -> Iterator[int]:
    """Hashes of runs of two to `longest` words, from the hashes of the words."""
    signed = [value - (1 << 32) if value >= 1 << 31 else value for value in hashes]
    for first, value in enumerate(signed):
        for other in signed[first + 1 : first + longest]:
            value = (value * CHAIN + other) & 0xFFFFFFFFFFFFFFFF
            yield value


class SpacedWords(WordTokenizer):
    """One id per word of a list, in its order; words that are not in it are left out unless the first is <unk>."""

    name = "spaced_words"

    def encode(self, text: str) -> np.ndarray:
        found = (self._ids.get(word, 0 if self.words[:1] == [self.UNKNOWN] else -1) for word in split(text))
        return np.array([number for number in found if number >= 0], dtype=np.int64)

    def decode(self, ids: list[int]) -> str:
        return " ".join(self.words[i] for i in ids)

    @classmethod
    def train(cls, text: str, limit: int = 0) -> Tokenizer:
        return cls([cls.UNKNOWN, *frequent(split(text), (limit or 10_000) - 1)])


def split(text: str) -> list[str]:
    return [word for word in SPACES.split(text) if word]


def frequent(words: Iterable[str], number: int, least: int = 1) -> list[str]:
    """The most frequent words, the first among equals."""
    counts = sorted(Counter(words).items(), key=lambda item: (-item[1], item[0]))[:number]
    return [word for word, count in counts if count >= least]


class SubwordTokenizer(SpacedWords):
    """The same words, and the n-grams of any word."""

    name = "subwords"

    def __init__(self, words: list[str], shortest: int, longest: int, buckets: int, kept: dict[int, int] | None = None):
        """buckets: numbers that n-grams are hashed to; kept: those of them that have a row, and which; None: all have."""
        super().__init__(words)
        self.shortest, self.longest, self.buckets, self.kept = shortest, longest, buckets, kept
        self.subwords = lru_cache(1 << 16)(self._subwords)

    def _subwords(self, word: str) -> tuple[int, ...]:
        """The rows of a word's n-grams of characters."""
        return tuple(self._rows(character_ngrams(word, self.shortest, self.longest)))

    def _rows(self, hashes: Iterable[int]) -> Iterator[int]:
        if self.buckets:
            places = (value % self.buckets for value in hashes)
            yield from places if self.kept is None else (self.kept[place] for place in places if place in self.kept)

    def to_json(self) -> dict[str, Any]:
        kept = None if self.kept is None else [number for pair in self.kept.items() for number in pair]
        settings = {"shortest": self.shortest, "longest": self.longest, "buckets": self.buckets}
        return {"type": self.name, "words": self.words, **settings, "kept": kept}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Tokenizer:
        return cls(*cls._fields(data))

    @staticmethod
    def _fields(data: dict[str, Any]) -> tuple[list[str], int, int, int, dict[int, int] | None]:
        found = checked(data, {"words": [str], "shortest": natural, "longest": natural, "buckets": natural})
        kept = data.get("kept")
        if kept is not None:
            checked(kept, [natural])
            kept = dict(zip(kept[::2], kept[1::2], strict=True))
        if found["longest"] > 64 or found["buckets"] > MOST:
            raise DataError(f"n-grams of up to {found['longest']} characters in {found['buckets']:,} buckets are no settings")
        if kept and max(kept.values()) >= len(kept):
            raise DataError("the n-grams that were kept have no rows of their own")
        return found["words"], found["shortest"], found["longest"], found["buckets"], kept


class FastTextTokenizer(SubwordTokenizer):
    """A text as the rows of its words, their n-grams and its n-grams of words, in no order that matters."""

    name = "fasttext"

    def __init__(
        self, words: list[str], shortest: int, longest: int, buckets: int, kept: dict[int, int] | None = None, word_ngrams: int = 1
    ):
        super().__init__(words, shortest, longest, buckets, kept)
        self.word_ngrams = word_ngrams
        self.size = len(words) + (buckets if kept is None else len(kept))

    def encode(self, text: str) -> np.ndarray:
        rows: list[int] = []
        hashes: list[int] = []
        for word in [*(word for word in split(text) if not word.startswith(LABEL)), END]:
            if (number := self._ids.get(word, -1)) >= 0:
                rows.append(number)
            if word != END:
                rows += [len(self.words) + row for row in self.subwords(word)]
            hashes.append(hashed(word.encode("utf-8", errors="replace")))
        rows += [len(self.words) + row for row in self._rows(word_ngrams(hashes, self.word_ngrams))]
        return np.array(rows, dtype=np.int64)

    def decode(self, ids: list[int]) -> str:
        return " ".join(self.words[i] for i in ids if i < len(self.words))

    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), "word_ngrams": self.word_ngrams}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Tokenizer:
        return cls(*cls._fields(data), checked(data, {"word_ngrams": natural})["word_ngrams"])
