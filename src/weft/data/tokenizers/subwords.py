"""Subword tokenizers: byte-level BPE, BPE, Unigram and WordPiece, trained on a text and run by the `tokenizers` library."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from weft.core import registry
from weft.core.errors import ConfigError, DataError
from weft.core.untrusted import checked, natural
from weft.data.io.files import reason, well_formed
from weft.data.tokenizers import unigram
from weft.data.tokenizers.base import Tokenizer
from weft.data.tokenizers.subword_engines import bert, byte_fallback, last_line_end, library, parse, separable, split_text
from weft.data.tokenizers.subword_engines import byte_level as byte_level

LIMIT = 10_000
TOGETHER = 4096
"""Characters of the longest text up to which many are encoded at once, as the library's encodings take far more memory than ids."""
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
"""Byte fallback pieces, as the library names them."""


class Subwords(Tokenizer):
    """Base of subword tokenizers. Encoding adds no special tokens, and a text that looks like one is only text."""

    model = ""
    """The library's name of the model."""
    special_token_texts = {"padding": "<pad>", "start": "<s>", "end": "</s>", "cls": "<cls>", "sep": "<sep>", "mask": "<mask>"}
    """Special tokens that a tokenizer trained here may have, with their text."""

    def __init__(self, engine: Any, special_tokens: dict[str, int]):
        """engine: a tokenizer of the library; special_tokens: their ids by role."""
        engine.encode_special_tokens = True
        self.engine, self.special_tokens = engine, special_tokens
        self.size = max(engine.get_vocab().values(), default=-1) + 1
        self._separable = separable(json.loads(engine.to_str()))

    @classmethod
    def train(cls, text: str, limit: int = 0, special_tokens: Sequence[str] = ()) -> Subwords:
        """Train a vocabulary of at most `limit` pieces, the 256 bytes and the special tokens among them."""
        budget = cls.budget(limit, special_tokens, len(BYTES) + len(special_tokens))
        texts = {name: cls.special_token_texts[name] for name in special_tokens}
        return cls.with_special_tokens(cls.learn(well_formed(text), budget, list(texts.values())), texts)

    @classmethod
    def learn(cls, text: str, budget: int, special_tokens: list[str]) -> Any:
        """A tokenizer of the library with special tokens, bytes and at most `budget` pieces of the text, numbered in this order."""
        raise NotImplementedError

    @classmethod
    def budget(cls, limit: int, special_tokens: Iterable[str], reserved: int) -> int:
        """The number of ids left for pieces of the text."""
        for name in special_tokens:
            if name not in cls.special_token_texts:
                raise ConfigError(f"{cls.name} has no special token called {name!r}{registry.nearest(name, list(cls.special_token_texts))}")
        if limit and limit < reserved:
            raise ConfigError(
                f"the vocabulary of {cls.name} must be 0 or at least {reserved}, not {limit}; see --vocabulary or --data.vocabulary"
            )
        return (limit or LIMIT) - reserved

    @classmethod
    def with_special_tokens(cls, engine: Any, texts: Mapping[str, str]) -> Subwords:
        """An engine with these texts as special tokens."""
        engine.add_special_tokens(list(texts.values()))
        return cls(engine, {name: engine.token_to_id(text) for name, text in texts.items()})

    @property
    def around(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The special tokens that the library adds before and after a text."""
        plain, whole = (self.engine.encode("a", add_special_tokens=added).ids for added in (False, True))
        for first in range(len(whole) - len(plain) + 1):
            if plain and whole[first : first + len(plain)] == plain:
                return tuple(whole[:first]), tuple(whole[first + len(plain) :])
        return (), ()

    def encode_pieces(self, pieces: Iterable[str]) -> Iterator[np.ndarray]:
        if not self._separable:
            yield self.encode("".join(pieces))
            return
        left = ""
        for piece in pieces:
            whole = left + piece
            cut = last_line_end(whole)
            if cut:
                yield self.encode(whole[:cut])
            left = whole[cut:]
        yield self.encode(left)

    def encode(self, text: str) -> np.ndarray:
        text = well_formed(text)
        parts = list(split_text(text)) if self._separable else [text]
        ids = [np.zeros(0, dtype=np.int64)]
        for first in range(0, len(parts), 64):  # the library's encodings take far more memory than ids
            try:
                encodings = self.engine.encode_batch_fast(parts[first : first + 64], add_special_tokens=False)
            except Exception as error:  # the library raises nothing narrower
                raise DataError(f"the tokenizer cannot encode this text ({reason(error)})") from error
            ids += [np.array(part.ids, dtype=np.int64) for part in encodings]
        return np.concatenate(ids)

    def encode_batch(self, texts: Sequence[str]) -> list[np.ndarray]:
        if max(map(len, texts), default=0) > TOGETHER:
            return super().encode_batch(texts)
        try:
            encodings = self.engine.encode_batch_fast([well_formed(text) for text in texts], add_special_tokens=False)
        except Exception:  # the library does not say which text it was
            return super().encode_batch(texts)
        return [np.array(found.ids, dtype=np.int64) for found in encodings]

    def encode_with_offsets(self, text: str) -> tuple[np.ndarray, np.ndarray]:
        """ids (N,) and the first and end character of each (N, 2)."""
        try:
            encoding = self.engine.encode(well_formed(text), add_special_tokens=False)
        except Exception as error:  # the library raises nothing narrower
            raise DataError(f"the tokenizer cannot encode this text ({reason(error)})") from error
        return np.array(encoding.ids, dtype=np.int64), np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2)

    def decode(self, ids: list[int]) -> str:
        text: str = self.engine.decode(ids, skip_special_tokens=False)
        return text

    def to_json(self) -> dict[str, Any]:
        return {"type": self.name, "marks": self.special_tokens, "tokenizer": json.loads(self.engine.to_str())}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Subwords:
        checked(data, {"tokenizer": dict, "marks": {str: natural}})
        tokenizer = cls(parse(data["tokenizer"]), dict(data["marks"]))
        model = type(tokenizer.engine.model).__name__
        if model != cls.model:
            raise ValueError(f"{cls.name} needs the model {cls.model}, not {model}")
        for name, number in tokenizer.special_tokens.items():
            if type(number) is not int or not 0 <= number < tokenizer.size:
                raise ValueError(f"the special token {name!r} is {number!r}, which is no id below {tokenizer.size}")
        return tokenizer


class ByteBPE(Subwords):
    """Byte-level BPE: the most frequent pair is merged, repeatedly, starting from bytes (Radford et al., 2019)."""

    name, model = "byte_bpe", "BPE"

    @classmethod
    def learn(cls, text: str, budget: int, special_tokens: list[str]) -> Any:
        engine = byte_level(library().models.BPE())
        train_merges(engine, text, len(BYTES) + budget, library().pre_tokenizers.ByteLevel.alphabet())
        engine.model = library().models.BPE(*vocabulary_and_merges(engine, special_tokens))
        return engine


class BPE(Subwords):
    """BPE starting from characters (Sennrich et al., 2016), with byte fallback for rare characters."""

    name, model = "bpe", "BPE"

    @classmethod
    def learn(cls, text: str, budget: int, special_tokens: list[str]) -> Any:
        engine = byte_fallback(library().models.BPE())
        train_merges(engine, text, budget, most_frequent(Counter(text), budget // 2))
        engine.model = library().models.BPE(*vocabulary_and_merges(engine, special_tokens + BYTES), byte_fallback=True)
        return engine


class Unigram(Subwords):
    """The most probable segmentation of each word (Kudo, 2018), with byte fallback for rare characters."""

    name, model = "unigram", "Unigram"

    @classmethod
    def learn(cls, text: str, budget: int, special_tokens: list[str]) -> Any:
        engine = byte_fallback(library().models.Unigram())
        pieces = unigram.learn(words(engine, text), most_frequent(Counter(text), budget // 2), budget)
        lowest = min((score for _, score in pieces), default=0.0)
        others = [(piece, lowest) for piece in special_tokens + BYTES]
        engine.model = library().models.Unigram(
            others + pieces, unk_id=len(special_tokens), byte_fallback=True
        )  # any byte may stand for unknown
        return engine


class WordPiece(Subwords):
    """Greedy longest match from the left (Schuster & Nakajima, 2012); ## begins a piece inside a word."""

    name, model = "wordpiece", "WordPiece"
    special_token_texts = {"padding": "[PAD]", "unknown": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}

    @classmethod
    def train(cls, text: str, limit: int = 0, special_tokens: Sequence[str] = (), lower: bool = True) -> Subwords:
        """Train a vocabulary of at most `limit` pieces, always with BERT's five special tokens; `lower` drops case and accents."""
        budget, text, engine = cls.budget(limit, special_tokens, len(cls.special_token_texts)), well_formed(text), bert({"[UNK]": 0}, lower)
        letters, inside = Counter[str](), set[str]()
        for word, count in words(engine, text).items():
            for letter in word:
                letters[letter] += count
            inside.update(word[1:])
        alphabet = most_frequent(letters, budget // 4)
        first = [
            *cls.special_token_texts.values(),
            *(f"##{letter}" for letter in alphabet if letter in inside),
        ]  # else their order is that of a hash table
        train_merges(engine, text, len(cls.special_token_texts) + budget, alphabet, first)
        return cls.with_special_tokens(bert(json.loads(engine.to_str())["model"]["vocab"], lower), cls.special_token_texts)

    def decode(self, ids: list[int]) -> str:
        return super().decode(ids).removeprefix("##")  # ids may begin inside a word


def train_merges(engine: Any, text: str, size: int, letters: list[str], first: Sequence[str] = ()) -> None:
    """Let the library train at most `size` pieces: those of `first`, letters, then merged pairs."""
    kind = library().trainers.WordPieceTrainer if first else library().trainers.BpeTrainer
    alphabet = {"initial_alphabet": letters, "limit_alphabet": len(letters)}
    engine.train_from_iterator(split_text(text), kind(vocab_size=size, special_tokens=list(first), show_progress=False, **alphabet))


def vocabulary_and_merges(engine: Any, first: list[str]) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """The vocabulary, after the pieces of `first`, and the merges of a trained engine."""
    model = json.loads(engine.to_str())["model"]
    pieces = first + sorted(model["vocab"], key=model["vocab"].__getitem__)
    return {piece: number for number, piece in enumerate(pieces)}, [(left, right) for left, right in model["merges"]]


def words(engine: Any, text: str) -> Counter[str]:
    """The counts of the words, normalised and pre-tokenized as for the model."""
    counts: Counter[str] = Counter()
    for part in split_text(text):
        plain = engine.normalizer.normalize_str(part) if engine.normalizer else part
        counts.update(word for word, _ in engine.pre_tokenizer.pre_tokenize_str(plain))
    return counts


def most_frequent(letters: Counter[str], number: int) -> list[str]:
    """The most frequent letters, sorted by code point."""
    return sorted(sorted(letters, key=lambda letter: (-letters[letter], letter))[:number])
