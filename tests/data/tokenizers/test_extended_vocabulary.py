"""Words with ids of their own for the unknown words of each source."""

from __future__ import annotations

import json

import pytest

from weft.core.errors import DataError
from weft.data.tokenizers.base import WordTokenizer, dump, load
from weft.data.tokenizers.extended_vocabulary import ExtendedVocabulary

WORDS = ExtendedVocabulary(WordTokenizer(["<unk>", "hello", "I", "am", ",", "and"]), 2)
FIRST, SECOND, UNKNOWN = 9, 10, 3


def test_unknown_words_of_a_source_have_ids_in_their_order() -> None:
    assert WORDS.size == 11
    assert WORDS.encode("I am Kuroro and Kurapika and Kuroro").tolist() == [5, 6, FIRST, 8, SECOND, 8, FIRST]
    assert WORDS.encode("Kurapika").tolist() == [FIRST]


def test_a_target_has_the_ids_of_its_source() -> None:
    mine = WORDS.for_source("I am Kuroro and Kurapika")
    ids = mine.encode("hello Kurapika, I am Leorio").tolist()
    assert ids == [4, SECOND, 7, 5, 6, UNKNOWN]  # what the source does not have cannot be copied
    assert mine.decode(ids) == "hello Kurapika, I am <unk>"
    assert mine.for_source("I am Gon").decode([FIRST, SECOND]) == "Gon <unk>"


def test_words_beyond_the_last_id_are_unknown() -> None:
    assert WORDS.encode("Gon Killua Kuroro").tolist() == [FIRST, SECOND, UNKNOWN]
    assert WORDS.for_source("Gon Killua Kuroro").encode("Kuroro Gon").tolist() == [UNKNOWN, FIRST]


def test_without_a_source_ids_of_unknown_words_can_be_decoded() -> None:
    assert WORDS.decode([1, 4, FIRST, SECOND, 2, 4]) == "hello <unk> <unk>"


def test_it_survives_its_file() -> None:
    read = load(dump(WORDS))
    assert isinstance(read, ExtendedVocabulary)
    assert read.to_json() == WORDS.to_json()
    assert read.encode("I am Gon").tolist() == WORDS.encode("I am Gon").tolist()


@pytest.mark.parametrize("number", [-1, 1 << 40, "2", None])
def test_a_damaged_file_is_refused(number: object) -> None:
    with pytest.raises(DataError):
        load(json.dumps({**WORDS.to_json(), "oov_words": number}).encode())
