"""Subword tokenizers: what is encoded comes back, training is repeatable, and both agree with references a few lines long."""

from __future__ import annotations

import itertools
import json
import re
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from weft.core import registry
from weft.core.errors import ConfigError, DataError, MissingExtra
from weft.core.installation import install_command
from weft.data.io.files import well_formed
from weft.data.text.pairs import PairsConfig
from weft.data.text.token_windows import TextConfig
from weft.data.tokenizers import base as tokenizers
from weft.data.tokenizers import subword_engines
from weft.data.tokenizers.subword_engines import bert
from weft.data.tokenizers.subwords import BPE, BYTES, ByteBPE, Subwords, Unigram, WordPiece

pytest.importorskip("tokenizers")

TEXT = (
    "Flightless birds cannot fly, but they walk, swim and run; the bird's wings are small.\n\n"
    "不会飞的鸟会走路，会游泳。鸟的翅膀很小。\n\tnaïve Ω 😀 <pad> [MASK] </s> 12 345 x_y\r\n" * 3
)
KINDS = [ByteBPE, BPE, Unigram, WordPiece]
LOSSLESS = KINDS[:3]
WORDS = ["low", "lower", "newest", "widest", "wide", "new", "banana", "aaaaa"]
MARKS = [*Subwords.special_token_texts.values(), *WordPiece.special_token_texts.values(), "<|endoftext|>", "<unk>", *BYTES[60:66]]
ANY_TEXT = st.one_of(
    st.text(st.characters(exclude_categories=()), max_size=40),
    st.lists(st.one_of(st.sampled_from([*MARKS, "the bird", "鸟会", "'s", "\n", "\r\n", " ", "▁", "##s"]), st.text(max_size=4))).map(
        "".join
    ),
)


@cache
def learned(kind: type[Subwords], limit: int = 400, special_tokens: tuple[str, ...] = ()) -> Subwords:
    return kind.train(TEXT, limit, special_tokens)


@pytest.mark.parametrize("kind", LOSSLESS)
@given(ANY_TEXT)
def test_any_text_comes_back(kind: type[Subwords], text: str) -> None:
    tokenizer = learned(kind)
    assert tokenizer.decode(tokenizer.encode(text).tolist()) == well_formed(text)


@pytest.mark.parametrize("kind", KINDS)
@given(ANY_TEXT)
@settings(max_examples=30)
def test_a_text_cut_at_line_ends_has_the_ids_of_the_whole(kind: type[Subwords], text: str) -> None:
    tokenizer, text = learned(kind), well_formed(f"{text}\n{text} \n\n{text}\n{TEXT}")
    whole = tokenizer.engine.encode(text, add_special_tokens=False).ids
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subword_engines, "PART_LENGTH", 3)
        assert len(list(subword_engines.split_text(text))) > 3
        assert tokenizer.encode(text).tolist() == whole


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_text_gives_the_same_tokenizer(kind: type[Subwords]) -> None:
    text = "".join(f"{number:b} {number} {chr(97 + number % 26) * (number % 7)}x " for number in range(300)) + TEXT
    first = kind.train(text, 330)
    assert all(tokenizers.dump(kind.train(text, 330)) == tokenizers.dump(first) for _ in range(4))
    assert kind.train(text).size <= 10_000


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("limit", [260, 300, 2000])
def test_no_more_pieces_than_allowed(kind: type[Subwords], limit: int) -> None:
    characters = "".join(map(chr, range(0x4E00, 0x4F00)))  # more than there is room for
    tokenizer = kind.train(TEXT + characters, limit)
    assert (0 if kind is WordPiece else 256) <= tokenizer.size <= limit
    if kind in LOSSLESS:
        assert tokenizer.decode(tokenizer.encode(characters).tolist()) == characters
    with pytest.raises(ConfigError, match=f"of {kind.name} must be 0 or at least {5 if kind is WordPiece else 256}, not 4"):
        kind.train(TEXT, 4)


@pytest.mark.parametrize("kind", KINDS)
def test_saved_and_read_back(kind: type[Subwords]) -> None:
    tokenizer = learned(kind)
    again = tokenizers.load(tokenizers.dump(tokenizer))
    assert isinstance(again, kind)
    assert again.to_json() == tokenizer.to_json()
    assert (again.size, again.special_tokens) == (tokenizer.size, tokenizer.special_tokens)
    assert np.array_equal(again.encode(TEXT), tokenizer.encode(TEXT))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "change",
    [
        {"tokenizer": None},
        {"tokenizer": {}},
        {"tokenizer": {"model": {"vocab": {}}}},
        {"tokenizer": {"model": {"type": "BPE", "vocab": {"a": 1 << 40}, "merges": []}}},
        {"tokenizer": {"model": {"type": "BPE", "vocab": {"a": 0, "b": 0}, "merges": []}}},
        {"tokenizer": {"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": [["a", "b"]]}}},
        {"tokenizer": {"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}}},
        {"marks": {"end": 1 << 20}},
        {"marks": {"end": "</s>"}},
        {"marks": 3},
    ],
)
def test_a_damaged_file_is_one_sentence(kind: type[Subwords], change: dict[str, object]) -> None:
    with pytest.raises(DataError, match="tokenizer cannot be read"):
        tokenizers.load(json.dumps({**learned(kind).to_json(), **change}).encode())


@given(st.sampled_from(KINDS), st.data())
@settings(max_examples=300)
def test_damage_anywhere_is_an_error_or_harmless(kind: type[Subwords], data: st.DataObject) -> None:
    content: Any = json.loads(tokenizers.dump(learned(kind)))
    place, key = content, "tokenizer"
    while isinstance(place[key], dict | list) and place[key] and data.draw(st.integers(0, 5)):
        place = place[key]
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
    place[key] = data.draw(st.sampled_from([None, 0, -1, 1.5, 1 << 31, 1 << 70, "", "a", "\ud800", [], {}, [["a", "b"]], ["a", 1], True]))
    damaged = bytearray(json.dumps(content).encode())
    if data.draw(st.booleans()):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        tokenizer = tokenizers.load(bytes(damaged))
        tokenizer.decode(tokenizer.encode(TEXT).tolist())
    except (DataError, ConfigError) as error:
        assert str(error)


@pytest.mark.parametrize("kind", KINDS)
@given(st.lists(st.sampled_from([*MARKS, " ", "a", "\n"]), max_size=12).map("".join))
def test_text_never_becomes_a_mark(kind: type[Subwords], text: str) -> None:
    tokenizer = learned(kind, 400, tuple(kind.special_token_texts))
    special_tokens = {number for name, number in tokenizer.special_tokens.items() if name != "unknown"}
    assert sorted(tokenizer.special_tokens.values()) == list(range(len(kind.special_token_texts)))
    assert not special_tokens & set(tokenizer.encode(text).tolist())
    assert tokenizer.decode([tokenizer.special_tokens["mask"]]) == kind.special_token_texts["mask"]


def test_a_mark_that_fills_the_training_text_is_still_text() -> None:
    for kind in KINDS:
        tokenizer = kind.train("<pad>[MASK]</s> " * 500, 300, special_tokens=("padding", "mask"))
        assert not {tokenizer.special_tokens["padding"], tokenizer.special_tokens["mask"]} & set(
            tokenizer.encode("<pad> [MASK]<mask>").tolist()
        )
    with pytest.raises(ConfigError, match="no special token called 'paddin'; did you mean 'padding'"):
        BPE.train("a", special_tokens=("paddin",))


def reference_bpe(words: Counter[str], size: int) -> tuple[list[str], list[tuple[str, str]]]:
    """Pieces and merges: the most frequent pair, of equal ones that of the oldest pieces."""
    pieces = sorted({letter for word in words for letter in word})
    cuts, merges = {word: list(word) for word in words}, []
    while len(pieces) < size:
        pairs: Counter[tuple[str, str]] = Counter()
        for word, parts in cuts.items():
            for pair in itertools.pairwise(parts):
                pairs[pair] += words[word]
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pieces.index(pair[0]), pieces.index(pair[1])))
        merges.append(best)
        pieces += ["".join(best)] * ("".join(best) not in pieces)
        cuts = {word: applied(parts, best) for word, parts in cuts.items()}
    return pieces, merges


def applied(parts: list[str], pair: tuple[str, str]) -> list[str]:
    done: list[str] = []
    for part in parts:
        if done and (done[-1], part) == pair:
            done[-1] += part
        else:
            done.append(part)
    return done


def reference_encode(word: str, merges: list[tuple[str, str]]) -> list[str]:
    parts = list(word)
    while found := [pair for pair in itertools.pairwise(parts) if pair in merges]:
        parts = applied(parts, min(found, key=merges.index))
    return parts


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=30), st.integers(2, 40))
def test_merges_are_those_of_the_reference(chosen: list[str], more: int) -> None:
    text = " ".join(chosen)
    words = re.findall(r" ?[a-z]+", text)
    letters = len(set(text))
    room = letters + max(more, letters)  # letters take half of the room at most
    for kind, spelled, limit in ((BPE, words, room), (ByteBPE, [word.replace(" ", "Ġ") for word in words], room - letters)):
        pieces, merges = reference_bpe(Counter(spelled), room)
        tokenizer = kind.train(text, 256 + limit)
        model = tokenizer.to_json()["tokenizer"]["model"]
        assert [tuple(pair) for pair in model["merges"]] == merges
        assert list(model["vocab"])[256:] == pieces[letters if kind is ByteBPE else 0 :]
        expected = [piece for word in spelled for piece in reference_encode(word, merges)]
        assert [tokenizer.engine.id_to_token(number) for number in tokenizer.encode(text).tolist()] == expected


def longest_first(word: str, vocabulary: list[str]) -> list[str]:
    """Brute force: among all ways to cut a word, that with the longest first piece, then the longest second, …"""
    pieces: list[str] = []
    rest = word
    while rest:
        fitting = [piece for piece in vocabulary if (prefix := "##" if pieces else "") + rest[: len(piece) - len(prefix)] == piece]
        fitting = [piece for piece in fitting if bool(pieces) == piece.startswith("##")]
        if not fitting:
            return ["[UNK]"]
        pieces.append(max(fitting, key=len))
        rest = rest[len(pieces[-1].removeprefix("##")) :]
    return pieces


PIECES = st.lists(st.text("abc", min_size=1, max_size=4), max_size=8)


@given(PIECES, PIECES, st.lists(st.text("abcd", min_size=1, max_size=8), max_size=6))
def test_wordpiece_takes_the_longest_piece_first(starts: list[str], inner: list[str], words: list[str]) -> None:
    vocabulary = list(dict.fromkeys(["[UNK]", *starts, *(f"##{piece}" for piece in inner)]))
    tokenizer = WordPiece(bert({piece: number for number, piece in enumerate(vocabulary)}), {"unknown": 0})
    found = [vocabulary[number] for number in tokenizer.encode(" ".join(words)).tolist()]
    assert found == [piece for word in words for piece in longest_first(word, vocabulary)]


def test_wordpiece_of_words_and_of_chinese() -> None:
    pieces = ["[UNK]", "flight", "##less", "fl", "##ight", "birds", ".", "鸟", "会"]
    tokenizer = WordPiece(bert({piece: number for number, piece in enumerate(pieces)}), {"unknown": 0})
    ids = tokenizer.encode("Flightless birds. 鸟会飞")
    assert [pieces[number] for number in ids] == ["flight", "##less", "birds", ".", "鸟", "会", "[UNK]"]
    assert tokenizer.decode(ids[:4].tolist()) == "flightless birds."
    assert tokenizer.decode(ids[1:4].tolist()) == "less birds."
    plain, cased = WordPiece.train("Ärger ärger " * 9), WordPiece.train("Ärger ärger " * 9, lower=False)
    assert plain.decode(plain.encode("Ärger").tolist()) == "arger"
    assert cased.decode(cased.encode("Ärger ärger").tolist()) == "Ärger ärger"


@pytest.mark.parametrize("kind", KINDS)
def test_frequent_words_become_one_piece(kind: type[Subwords]) -> None:
    tokenizer = kind.train("the moon 月亮 " * 200, 400)
    assert len(tokenizer.encode("the moon")) == 2
    assert len(tokenizer.encode(" 月亮")) == (2 if kind is WordPiece else 1)


@pytest.mark.parametrize("kind", KINDS)
def test_empty_and_odd_training_texts(kind: type[Subwords]) -> None:
    for text in ("", " ", "\ud800", "\0", "=" * 10_000, " " * 5000 + "\n" * 5000):
        tokenizer = kind.train(text)
        assert len(tokenizer.encode("")) == 0
        assert tokenizer.encode(text).dtype == np.int64
        if kind in LOSSLESS:
            assert tokenizer.decode(tokenizer.encode(text + TEXT).tolist()) == well_formed(text + TEXT)


@pytest.mark.parametrize("unit", ["byte_bpe", "bpe", "wordpiece", "unigram"])
def test_as_a_unit_of_texts_and_pairs(tmp_path: Path, unit: str) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes((TEXT * 5).encode())
    data = TextConfig(path=str(path), tokenizer=unit, vocabulary=350, context=8).build()  # type: ignore[arg-type]
    assert isinstance(data.tokenizer, registry.find("tokenizers", unit))
    assert data.info["vocabulary"] == data.tokenizer.size <= 350
    text = (TEXT * 5).replace("\r\n", "\n")
    held = text[int(len(text) * 0.9) :]
    assert data.info["bytes_per_token"] == len(held.encode()) / data.info["validation_tokens"]
    assert data.info["validation_tokens"] == len(data.tokenizer.encode(held))
    (tmp_path / "a.tsv").write_text("source\ttarget\n" + "the bird\tder Vogel\nwings\tFlügel\n" * 10)
    pairs = PairsConfig(path=str(tmp_path / "a.tsv"), tokenizer=unit, vocabulary=350).build()  # type: ignore[arg-type]
    ids = tokenizers.load(tokenizers.dump(pairs.tokenizer)).encode("der vogel").tolist()
    assert pairs.tokenizer.decode(ids) == "der vogel"


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    data = tokenizers.dump(learned(ByteBPE))
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    for use in (lambda: ByteBPE.train("a"), lambda: tokenizers.load(data)):
        with pytest.raises(MissingExtra, match=re.escape(install_command("text"))):
            use()
