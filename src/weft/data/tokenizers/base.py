"""Tokenizers of bytes, characters and words, and the names of classes. Each is saved as JSON in the checkpoint."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import numpy as np

from weft.core import registry, renamed
from weft.core.errors import DataError
from weft.core.untrusted import checked, parse_json, parsing
from weft.data.io.files import well_formed

WORD = re.compile(r"\w+|[^\w\s]|\n")


class Tokenizer:
    """Text to ids and back. `encode` gives an int array; `size` is the number of ids."""

    name = ""
    size = 0

    @property
    def around(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The special tokens that the model expects before and after a text: [CLS] and [SEP] of BERT, or none."""
        special: dict[str, int] = getattr(self, "special_tokens", {})
        return ((special["cls"],), (special["sep"],)) if "cls" in special and "sep" in special else ((), ())

    @classmethod
    def train(cls, text: str, limit: int = 0) -> Tokenizer:
        """Train on a text; `limit` bounds the vocabulary where it is learned."""
        raise NotImplementedError

    def encode(self, text: str) -> np.ndarray:
        raise DataError(f"the tokenizer {self.name!r} reads no text; start from a model of text, or from none")

    def decode(self, ids: list[int]) -> str:
        raise NotImplementedError

    def to_json(self) -> dict[str, Any]:
        return {"type": self.name}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Tokenizer:
        return cls()


class ByteTokenizer(Tokenizer):
    """One id per byte of UTF-8: nothing is unknown."""

    name, size = "bytes", 256

    @classmethod
    def train(cls, text: str, limit: int = 0) -> Tokenizer:
        return cls()

    def encode(self, text: str) -> np.ndarray:
        try:
            data = text.encode("utf-8", errors="surrogateescape")
        except UnicodeEncodeError:
            data = well_formed(text).encode("utf-8")
        return np.frombuffer(data, dtype=np.uint8)

    def decode(self, ids: list[int]) -> str:
        return bytes(ids).decode("utf-8", errors="replace")


class CharacterTokenizer(Tokenizer):
    """One id per character of the training text, in code-point order."""

    name = "characters"

    def __init__(self, characters: str):
        self.characters = characters
        self.size = len(characters)
        self._points = np.array([ord(c) for c in characters], dtype=np.uint32)

    @classmethod
    def train(cls, text: str, limit: int = 0) -> Tokenizer:
        return cls("".join(sorted(set(text))))

    def encode(self, text: str) -> np.ndarray:
        points = np.frombuffer(text.encode("utf-32-le", errors="surrogatepass"), dtype=np.uint32)
        ids = np.searchsorted(self._points, points)
        is_known = self._points[np.minimum(ids, self.size - 1)] == points
        if not is_known.all():
            position = int(np.argmin(is_known))
            raise DataError(f"character {text[position]!r} at position {position} does not occur in the text this model was trained on")
        return ids

    def decode(self, ids: list[int]) -> str:
        return "".join(self.characters[i] for i in ids)

    def to_json(self) -> dict[str, Any]:
        return {"type": self.name, "characters": self.characters}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Tokenizer:
        return cls(checked(data, {"characters": str})["characters"])


class WordTokenizer(Tokenizer):
    """One id per frequent word or punctuation mark; id 0 is any other word. Spaces are not kept."""

    name = "words"
    UNKNOWN = "<unk>"

    def __init__(self, words: list[str]):
        self.words = words
        self.size = len(words)
        self._ids = {word: i for i, word in enumerate(words)}

    @classmethod
    def train(cls, text: str, limit: int = 0) -> Tokenizer:
        counts = Counter(match.group() for match in WORD.finditer(text))
        frequent = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[: (limit or 10_000) - 1]
        return cls([cls.UNKNOWN, *(word for word, _ in frequent)])

    def encode(self, text: str) -> np.ndarray:
        return np.array([self._ids.get(match.group(), 0) for match in WORD.finditer(text)], dtype=np.int64)

    def decode(self, ids: list[int]) -> str:
        text = " ".join(self.words[i] for i in ids)
        return re.sub(r" ([.,;:!?)\]'])", r"\1", text).replace(" \n ", "\n")

    def to_json(self) -> dict[str, Any]:
        return {"type": self.name, "words": self.words}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Tokenizer:
        return cls(checked(data, {"words": [str]})["words"])


class ClassNames(Tokenizer):
    """Names of classes; the id of a class is its index among them."""

    name = "classes"

    def __init__(self, names: list[str]):
        self.names = names
        self.size = len(names)

    def encode(self, text: str) -> np.ndarray:
        if text not in self.names:
            raise DataError(f"the model knows classes, not text, and none is called {text[:40]!r}{registry.nearest(text[:40], self.names)}")
        return np.array([self.names.index(text)], dtype=np.int64)

    def decode(self, ids: list[int]) -> str:
        return ", ".join(self.names[i] for i in ids)

    def to_json(self) -> dict[str, Any]:
        return {"type": self.name, "names": self.names}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Tokenizer:
        return cls(checked(data, {"names": [str]})["names"])


def dump(tokenizer: Tokenizer) -> bytes:
    return json.dumps(tokenizer.to_json(), ensure_ascii=True).encode()


def load(data: bytes) -> Tokenizer:
    """A tokenizer that `dump` has written; anything else is a DataError."""
    with parsing("the tokenizer", fault=" cannot be read; its file is damaged"):
        content = checked(renamed.tokenizer(parse_json(data)), {"type": str})
        tokenizer: Tokenizer = registry.find("tokenizers", content["type"]).from_json(content)
    return tokenizer
