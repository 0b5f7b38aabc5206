"""Words as the characters that ELMo reads (Peters et al., 2018, arXiv:1802.05365): ids as those of bilm-tf.

A word is a mark of its beginning and the bytes of its UTF-8, so that no word is unknown; a sentence stands between two marks of its own.
Each id is that of bilm-tf plus one, as 0 is padding.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from weft.core.untrusted import checked
from weft.data.io.files import well_formed
from weft.data.tokenizers.base import Tokenizer

PADDING, BOS, EOS, BOW, EOW, PAD_CHARACTER = 0, 257, 258, 259, 260, 261
"""Nothing, the beginning and end of a sentence, those of a word, and what fills up its characters."""
CHARACTERS = 262
LONGEST = 50
"""Characters of a word, its two marks included."""


class WordCharacters(Tokenizer):
    """Words between spaces, each a mark of its beginning (BOW) and its bytes; longer words are truncated."""

    name, size = "word_characters", CHARACTERS
    special_tokens = {"cls": BOS, "sep": EOS, "padding": PADDING}

    @classmethod
    def train(cls, text: str, limit: int = 0) -> Tokenizer:
        return cls()

    @classmethod
    def train_pieces(cls, pieces: Iterable[str], limit: int = 0) -> Tokenizer:
        return cls()

    def encode(self, text: str) -> np.ndarray:
        words = [well_formed(word).encode()[: LONGEST - 2] for word in text.split()]
        return np.array([part for word in words for part in (BOW, *(byte + 1 for byte in word))], dtype=np.int64)

    def decode(self, ids: list[int]) -> str:
        text = b"".join(b" " if i == BOW else bytes([i - 1]) if 0 < i <= 256 else b"" for i in ids)
        return text.decode("utf-8", errors="replace").strip(" ")


class BiLMTokenizer(Tokenizer):
    """Words as characters to read, and the most frequent words to predict; word 0 is any other."""

    name, UNKNOWN = "bilm", "<unk>"

    def __init__(self, words: list[str]):
        self.tokens, self.words = WordCharacters(), words
        self.size, self.special_tokens = self.tokens.size, self.tokens.special_tokens
        self._ids = {word: index for index, word in enumerate(words)}

    def encode(self, text: str) -> np.ndarray:
        return self.tokens.encode(text)

    def decode(self, ids: list[int]) -> str:
        return self.tokens.decode(ids)

    def word_ids(self, words: Iterable[str]) -> list[int]:
        return [self._ids.get(word, 0) for word in words]

    def to_json(self) -> dict[str, Any]:
        return {"type": self.name, "words": self.words}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Tokenizer:
        return cls(checked(data, {"words": [str]})["words"])
