"""Words in pieces: byte-level BPE, BPE, Unigram and WordPiece, learned from a text and run by the `tokenizers` library."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from weft.core import registry
from weft.core.errors import ConfigError, DataError
from weft.data.io.files import reason, well_formed
from weft.data.tokenizers import unigram
from weft.data.tokenizers.base import Tokenizer
from weft.data.tokenizers.subword_engines import bert, cut, library, parse, separable, spelling
from weft.data.tokenizers.subword_engines import byte_level as byte_level

LIMIT = 10_000
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
"""Pieces that spell what no other piece does, as the library names them."""


class Subwords(Tokenizer):
    """Pieces of words. Encoding adds no marks, and a text that looks like a mark is only text."""

    model = ""
    """What the library calls the model."""
    looks = {"padding": "<pad>", "start": "<s>", "end": "</s>", "cls": "<cls>", "sep": "<sep>", "mask": "<mask>"}
    """Marks that a tokenizer learned here may have, and how they are written."""

    def __init__(self, engine: Any, marks: dict[str, int]):
        """A tokenizer of the library, and the ids of its marks by what they are for."""
        engine.encode_special_tokens = True
        self.engine, self.marks = engine, marks
        self.size = max(engine.get_vocab().values(), default=-1) + 1
        self._separable = separable(json.loads(engine.to_str()))

    @classmethod
    def train(cls, text: str, limit: int = 0, marks: Sequence[str] = ()) -> Subwords:
        """Learn at most `limit` pieces, the 256 that spell anything and the marks asked for among them."""
        room = cls.room(limit, marks, len(BYTES) + len(marks))
        looks = {name: cls.looks[name] for name in marks}
        return cls.marked(cls.learn(well_formed(text), room, list(looks.values())), looks)

    @classmethod
    def learn(cls, text: str, room: int, marks: list[str]) -> Any:
        """A tokenizer of the library with marks, bytes and at most `room` pieces of the text, numbered in this order."""
        raise NotImplementedError

    @classmethod
    def room(cls, limit: int, marks: Iterable[str], taken: int) -> int:
        """Ids that are left for pieces of the text."""
        for name in marks:
            if name not in cls.looks:
                raise ConfigError(f"{cls.name} has no mark called {name!r}{registry.nearest(name, list(cls.looks))}")
        if limit and limit < taken:
            raise ConfigError(
                f"the vocabulary of {cls.name} must be 0 or at least {taken}, not {limit}; see --vocabulary or --data.vocabulary"
            )
        return (limit or LIMIT) - taken

    @classmethod
    def marked(cls, engine: Any, looks: Mapping[str, str]) -> Subwords:
        """An engine some of whose pieces are marks."""
        engine.add_special_tokens(list(looks.values()))
        return cls(engine, {name: engine.token_to_id(look) for name, look in looks.items()})

    @property
    def around(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Those that the library puts there."""
        plain, whole = (self.engine.encode("a", add_special_tokens=marked).ids for marked in (False, True))
        for first in range(len(whole) - len(plain) + 1):
            if plain and whole[first : first + len(plain)] == plain:
                return tuple(whole[:first]), tuple(whole[first + len(plain) :])
        return (), ()

    def encode(self, text: str) -> np.ndarray:
        text = well_formed(text)
        parts = list(cut(text)) if self._separable else [text]
        ids = [np.zeros(0, dtype=np.int64)]
        for first in range(0, len(parts), 64):  # what the library returns takes far more memory than ids
            try:
                found = self.engine.encode_batch_fast(parts[first : first + 64], add_special_tokens=False)
            except Exception as error:  # the library raises nothing narrower
                raise DataError(f"the tokenizer cannot encode this text ({reason(error)})") from error
            ids += [np.array(part.ids, dtype=np.int64) for part in found]
        return np.concatenate(ids)

    def encode_with_offsets(self, text: str) -> tuple[np.ndarray, np.ndarray]:
        """ids (N,) and the characters where each begins and ends (N, 2)."""
        try:
            found = self.engine.encode(well_formed(text), add_special_tokens=False)
        except Exception as error:  # the library raises nothing narrower
            raise DataError(f"the tokenizer cannot encode this text ({reason(error)})") from error
        return np.array(found.ids, dtype=np.int64), np.array(found.offsets, dtype=np.int64).reshape(-1, 2)

    def decode(self, ids: list[int]) -> str:
        text: str = self.engine.decode(ids, skip_special_tokens=False)
        return text

    def to_json(self) -> dict[str, Any]:
        return {"type": self.name, "marks": self.marks, "tokenizer": json.loads(self.engine.to_str())}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Subwords:
        tokenizer = cls(parse(data["tokenizer"]), dict(data["marks"]))
        found = type(tokenizer.engine.model).__name__
        if found != cls.model:
            raise ValueError(f"{cls.name} needs the model {cls.model}, not {found}")
        for name, number in tokenizer.marks.items():
            if type(number) is not int or not 0 <= number < tokenizer.size:
                raise ValueError(f"the mark {name!r} is {number!r}, which is no id below {tokenizer.size}")
        return tokenizer


class ByteBPE(Subwords):
    """The most frequent pair of neighbours becomes a piece, again and again, from bytes on (Radford et al., 2019)."""

    name, model = "byte_bpe", "BPE"

    @classmethod
    def learn(cls, text: str, room: int, marks: list[str]) -> Any:
        engine = byte_level(library().models.BPE())
        merge(engine, text, len(BYTES) + room, library().pre_tokenizers.ByteLevel.alphabet())
        engine.model = library().models.BPE(*numbered(engine, marks))
        return engine


class BPE(Subwords):
    """Pairs merged from characters on (Sennrich et al., 2016); rare characters are spelled in bytes."""

    name, model = "bpe", "BPE"

    @classmethod
    def learn(cls, text: str, room: int, marks: list[str]) -> Any:
        engine = spelling(library().models.BPE())
        merge(engine, text, room, frequent(Counter(text), room // 2))
        engine.model = library().models.BPE(*numbered(engine, marks + BYTES), byte_fallback=True)
        return engine


class Unigram(Subwords):
    """The likeliest way to cut each word (Kudo, 2018); rare characters are spelled in bytes."""

    name, model = "unigram", "Unigram"

    @classmethod
    def learn(cls, text: str, room: int, marks: list[str]) -> Any:
        engine = spelling(library().models.Unigram())
        pieces = unigram.learn(words(engine, text), frequent(Counter(text), room // 2), room)
        worst = min((score for _, score in pieces), default=0.0)
        others = [(piece, worst) for piece in marks + BYTES]
        engine.model = library().models.Unigram(others + pieces, unk_id=len(marks), byte_fallback=True)  # any byte may stand for unknown
        return engine


class WordPiece(Subwords):
    """From the left always the longest piece that is known (Schuster & Nakajima, 2012); ## begins one inside a word."""

    name, model = "wordpiece", "WordPiece"
    looks = {"padding": "[PAD]", "unknown": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}

    @classmethod
    def train(cls, text: str, limit: int = 0, marks: Sequence[str] = (), lower: bool = True) -> Subwords:
        """Learn at most `limit` pieces, BERT's five marks always among them; `lower` drops case and accents."""
        room, text, engine = cls.room(limit, marks, len(cls.looks)), well_formed(text), bert({"[UNK]": 0}, lower)
        letters, inside = Counter[str](), set[str]()
        for word, count in words(engine, text).items():
            for letter in word:
                letters[letter] += count
            inside.update(word[1:])
        known = frequent(letters, room // 4)
        first = [*cls.looks.values(), *(f"##{letter}" for letter in known if letter in inside)]  # else a hash table orders them
        merge(engine, text, len(cls.looks) + room, known, first)
        return cls.marked(bert(json.loads(engine.to_str())["model"]["vocab"], lower), cls.looks)

    def decode(self, ids: list[int]) -> str:
        return super().decode(ids).removeprefix("##")  # ids may begin inside a word


def merge(engine: Any, text: str, size: int, letters: list[str], first: Sequence[str] = ()) -> None:
    """Let the library learn at most `size` pieces: those that come first, letters, then pairs."""
    kind = library().trainers.WordPieceTrainer if first else library().trainers.BpeTrainer
    alphabet = {"initial_alphabet": letters, "limit_alphabet": len(letters)}
    engine.train_from_iterator(cut(text), kind(vocab_size=size, special_tokens=list(first), show_progress=False, **alphabet))


def numbered(engine: Any, first: list[str]) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Vocabulary and merges that an engine has learned, behind other pieces."""
    model = json.loads(engine.to_str())["model"]
    pieces = first + sorted(model["vocab"], key=model["vocab"].__getitem__)
    return {piece: number for number, piece in enumerate(pieces)}, [(left, right) for left, right in model["merges"]]


def words(engine: Any, text: str) -> Counter[str]:
    """How often each word occurs, as the model gets to see it."""
    counts: Counter[str] = Counter()
    for part in cut(text):
        plain = engine.normalizer.normalize_str(part) if engine.normalizer else part
        counts.update(word for word, _ in engine.pre_tokenizer.pre_tokenize_str(plain))
    return counts


def frequent(letters: Counter[str], number: int) -> list[str]:
    """The most frequent letters, in the order of their code."""
    return sorted(sorted(letters, key=lambda letter: (-letters[letter], letter))[:number])
