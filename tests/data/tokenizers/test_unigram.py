"""The probabilities of all ways to cut a word, against counting the ways one by one."""

from __future__ import annotations

import itertools
from collections import Counter

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from weft.data.tokenizers.unigram import Lattice, learn, training_words

WORDS = st.lists(st.text("ab", min_size=1, max_size=6), min_size=1, max_size=4, unique=True)
PIECES = st.lists(st.text("ab", min_size=2, max_size=3), max_size=4, unique=True).map(lambda some: ["a", "b", *some])


def ways(word: str, pieces: list[str]) -> list[list[str]]:
    found = []
    for places in itertools.product((False, True), repeat=len(word) - 1):
        ends = [*(place for place, is_cut in enumerate(places, 1) if is_cut), len(word)]
        way = [word[start:end] for start, end in zip([0, *ends], ends, strict=False)]
        if all(piece in pieces for piece in way):
            found.append(way)
    return found


@given(WORDS, PIECES, st.integers(0, 1000))
def test_expected_uses_are_those_of_all_ways(words: list[str], pieces: list[str], seed: int) -> None:
    random = np.random.default_rng(seed)
    probability, counts = random.uniform(0.1, 1.0, len(pieces)), random.integers(1, 9, len(words)).astype(float)
    expected = np.zeros(len(pieces))
    for word, count in zip(words, counts, strict=True):
        found = ways(word, pieces)
        sizes = np.array([np.prod([probability[pieces.index(piece)] for piece in way]) for way in found])
        for way, share in zip(found, sizes / sizes.sum(), strict=True):
            for piece in way:
                expected[pieces.index(piece)] += count * share
    lattice = Lattice(words, {piece: number for number, piece in enumerate(pieces)})
    assert lattice.expected_counts(probability, counts) == pytest.approx(expected)


def test_pieces_are_those_the_words_are_made_of() -> None:
    parts = ("flight", "less", "bird", "song")
    words = {"".join(way): 10 + place for place, way in enumerate(itertools.product(parts, repeat=4))}
    characters = sorted(set("".join(parts)))
    found = learn(words, characters, len(characters) + len(parts))
    assert {piece for piece, _ in found if len(piece) > 1} == set(parts)
    assert {piece for piece, _ in found if len(piece) == 1} == set(characters)
    assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)


@given(st.dictionaries(st.text("abcdé中", min_size=1, max_size=40), st.integers(1, 1000), max_size=12), st.integers(6, 40))
def test_all_characters_stay_and_no_more_pieces_than_allowed(words: dict[str, int], size: int) -> None:
    found = learn(words, "abc", size)
    assert len(found) <= size
    if any(set(word) & set("abc") for word in words):
        assert set("abc") <= {piece for piece, _ in found}
    assert all(set(piece) <= set("abc") and score <= 0 for piece, score in found)
    assert found == learn(dict(reversed(words.items())), "abc", size)


def test_long_words_come_in_parts_without_unknown_characters() -> None:
    assert training_words({"a" * 40 + "!bc": 2, "bc": 3, "!": 9}, set("abc")) == Counter({"bc": 5, "a" * 32: 2, "a" * 8: 2})
