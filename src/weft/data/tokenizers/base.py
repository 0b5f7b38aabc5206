"""Tokenizers of bytes, characters and words, and the names of classes. Each is saved as JSON in the checkpoint."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from weft.core import registry, renamed
from weft.core.errors import DataError
from weft.core.untrusted import checked, parse_json, parsing
from weft.data.constraint import Constraint
from weft.data.io.files import well_formed

WORD = re.compile(r"\w+|[^\w\s]|\n")
CHUNK = 1 << 20
"""Characters that are encoded at once."""


def id_dtype(size: int) -> type[np.uint8] | type[np.int16] | type[np.int32]:
    """The smallest integer dtype for a vocabulary, of those that PyTorch indexes with."""
    return np.uint8 if size <= 256 else np.int16 if size <= 32768 else np.int32


class Tokenizer:
    """Text to ids and back. `encode` gives an int array; `size` is the number of ids."""

    name = ""
    size = 0
    needs_all_tokens = False
    """Whether the text of some tokens depends on all that stand before them."""

    @property
    def around(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The special tokens that the model expects before and after a text: [CLS] and [SEP] of BERT, or none."""
        special: dict[str, int] = getattr(self, "special_tokens", {})
        return ((special["cls"],), (special["sep"],)) if "cls" in special and "sep" in special else ((), ())

    @classmethod
    def train(cls, text: str, limit: int = 0) -> Tokenizer:
        """Train on a text; `limit` bounds the vocabulary where it is learned."""
        raise NotImplementedError

    @classmethod
    def train_pieces(cls, pieces: Iterable[str], limit: int = 0) -> Tokenizer:
        """As `train`, on a text in pieces."""
        return cls.train("".join(pieces), limit)

    def encode_pieces(self, pieces: Iterable[str]) -> Iterator[np.ndarray]:
        """The ids of a text in pieces that end with a line where there is one, as those of the whole text."""
        yield self.encode("".join(pieces))

    def unknown(self, text: str) -> str:
        """The characters of a text, in order, that have no token: left out, or the unknown token where there is one."""
        return ""

    def for_source(self, source: str) -> Tokenizer:
        """The tokenizer of the answers to a source, which differs where these can hold words of it that are not in the vocabulary."""
        return self

    def constraint(self, source: Sequence[int]) -> Constraint | None:
        """What an answer to the tokens of a source may say; None for anything."""
        return None

    def encode(self, text: str) -> np.ndarray:
        raise DataError(f"the tokenizer {self.name!r} reads no text; start from a model of text, or from none")

    def encode_batch(self, texts: Sequence[str]) -> list[np.ndarray]:
        """As `encode` of each of many texts, sooner where the tokenizer can take them together."""
        return [self.encode(text) for text in texts]

    def encode_target(self, text: str) -> np.ndarray:
        """As `encode`, where the answers of a model are written as what it answers."""
        return self.encode(text)

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

    @classmethod
    def train_pieces(cls, pieces: Iterable[str], limit: int = 0) -> Tokenizer:
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
    """One id per character of the training text, in code-point order.

    Any other character is U+FFFD where the vocabulary has it: with a limit, which keeps the most frequent characters, it stands for all
    others and is learned as such. A vocabulary without a limit has a token for every character of its text, so an id for unknown ones would
    never occur in training and mean nothing: there they are left out. `note_unknown` says how many.
    """

    name = "characters"
    UNKNOWN = "\ufffd"

    def __init__(self, characters: str):
        self.characters = characters
        self.size = len(characters)
        self._known = frozenset(characters)
        self._ids = np.full(max(map(ord, characters), default=0) + 2, characters.find(self.UNKNOWN), dtype=np.int32)
        self._ids[[ord(character) for character in characters]] = np.arange(self.size)

    @classmethod
    def train(cls, text: str, limit: int = 0) -> Tokenizer:
        return cls.train_pieces((text,), limit)

    @classmethod
    def train_pieces(cls, pieces: Iterable[str], limit: int = 0) -> Tokenizer:
        if not limit:
            return cls("".join(sorted(set[str]().union(*map(set, pieces)))))
        counts = Counter[str]()
        for piece in pieces:
            counts.update(piece)
        if len(counts) > limit:
            frequent = sorted(counts, key=lambda character: (-counts[character], character))
            kept = [character for character in frequent if character != cls.UNKNOWN][: limit - 1]
            return cls("".join(sorted([*kept, cls.UNKNOWN])))
        return cls("".join(sorted(counts)))

    def encode(self, text: str) -> np.ndarray:
        return np.concatenate([self._encode(text[first : first + CHUNK]) for first in range(0, max(1, len(text)), CHUNK)], dtype=np.int64)

    def encode_pieces(self, pieces: Iterable[str]) -> Iterator[np.ndarray]:
        return map(self._encode, pieces)

    def _encode(self, text: str) -> np.ndarray:
        points = np.frombuffer(text.encode("utf-32-le", errors="surrogatepass"), dtype=np.uint32)
        ids: np.ndarray = self._ids[np.minimum(points, len(self._ids) - 1)]
        return ids[ids >= 0]

    def unknown(self, text: str) -> str:
        characters = set(text) - self._known
        return "".join(character for character in text if character in characters) if characters else ""

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
        return cls.of_counts(Counter(cls.split(text)), limit)

    @classmethod
    def of_counts(cls, counts: Mapping[str, int], limit: int = 0) -> WordTokenizer:
        """The words that are counted most often."""
        frequent = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[: (limit or 10_000) - 1]
        return cls([cls.UNKNOWN, *(word for word, _ in frequent)])

    @staticmethod
    def split(text: str) -> list[str]:
        """The words and punctuation marks of a text, whether known or not."""
        return WORD.findall(text)

    def encode_pieces(self, pieces: Iterable[str]) -> Iterator[np.ndarray]:
        return map(self.encode, pieces)

    def encode(self, text: str) -> np.ndarray:
        return np.array([self._ids.get(word, 0) for word in self.split(text)], dtype=np.int64)

    def decode(self, ids: list[int]) -> str:
        return self.join([self.words[i] for i in ids])

    @staticmethod
    def join(words: Iterable[str]) -> str:
        """A text of these words, with spaces where a text usually has them."""
        text = " ".join(words)
        return re.sub(r" ([.,;:!?)\]'])", r"\1", text).replace(" \n ", "\n")

    def to_json(self) -> dict[str, Any]:
        return {"type": self.name, "words": self.words}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Tokenizer:
        return cls(checked(data, {"words": [str]})["words"])


class WhitespaceTokenizer(WordTokenizer):
    """One id per frequent word, where words are what stands between spaces, as in texts that were tokenized before (Penn Treebank).

    Id 0 is any other word, as which a text may write <unk> itself; the end of a line is <eos>.
    """

    name = "whitespace"
    END = "<eos>"

    @classmethod
    def train(cls, text: str, limit: int = 0) -> Tokenizer:
        counts = Counter(cls.split(text))
        counts.pop(cls.UNKNOWN, None)
        frequent = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[: (limit or 10_000) - 1]
        return cls([cls.UNKNOWN, *(word for word, _ in frequent)])

    @classmethod
    def split(cls, text: str) -> list[str]:
        return text.replace("\n", f" {cls.END} ").split()

    def encode(self, text: str) -> np.ndarray:
        return np.array([self._ids.get(word, 0) for word in self.split(text)], dtype=np.int64)

    def decode(self, ids: list[int]) -> str:
        return " ".join("\n" if self.words[i] == self.END else self.words[i] for i in ids).replace(" \n ", "\n")


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
