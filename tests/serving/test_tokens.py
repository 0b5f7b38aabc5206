"""Tokens as clients see them."""

from __future__ import annotations

from typing import Any

import pytest

from weft.data.annotated.label_tokens import LabelledTokenizer
from weft.data.text.sentence_pairs import BERTWordTokenizer
from weft.data.tokenizers.base import ByteTokenizer, CharacterTokenizer, WordTokenizer
from weft.data.tokenizers.special_tokens import Seq2SeqTokenizer
from weft.data.tokenizers.subwords import BPE, ByteBPE, Unigram, WordPiece
from weft.serving.tokens import TokenTexts

TEXT = "the quick brown fox jumps over the lazy dog; größer als 10 € 🦊 the end\n" * 3
KINDS: list[Any] = [ByteBPE, BPE, Unigram, WordPiece, ByteTokenizer, CharacterTokenizer, WordTokenizer, BERTWordTokenizer]
EXACT = (ByteBPE, BPE, Unigram, ByteTokenizer, CharacterTokenizer)
"""Tokenizers whose tokens are written one after the other, with nothing between."""


@pytest.fixture(scope="module", params=KINDS, ids=lambda kind: kind.__name__)
def tokens(request: pytest.FixtureRequest) -> TokenTexts:
    return TokenTexts(request.param.train(TEXT, 400))


def test_spellings_make_the_text(tokens: TokenTexts) -> None:
    ids = tokens.encode(TEXT, special=False)
    if isinstance(tokens.tokenizer, EXACT):
        assert b"".join(tokens.spelling(number) for number in ids) == TEXT.encode()


def test_every_token_has_a_text_and_different_ones_different_names(tokens: TokenTexts) -> None:
    every = list(range(tokens.size))
    assert all(isinstance(tokens.text(number), str) for number in every)
    for first in range(0, tokens.size, 20):
        names = tokens.names(every[first : first + 20])
        assert len(set(names)) == len(names)


def test_offsets_say_where_tokens_begin(tokens: TokenTexts) -> None:
    ids = tokens.encode(TEXT, special=False)
    offsets = tokens.offsets(ids)
    assert offsets[0] == 0
    assert offsets == sorted(offsets)
    whole = tokens.decode(ids)
    if isinstance(tokens.tokenizer, EXACT):
        starts = [len(b"".join(tokens.spelling(number) for number in ids[:place]).decode(errors="ignore")) for place in range(len(ids) + 1)]
        assert offsets == starts
    for place in range(0, len(ids), 7):
        word = tokens.text(ids[place]).strip()
        if word.isascii() and word.isalpha():
            assert word in whole[offsets[place] : offsets[place] + len(word) + 1].lower()
    half = len(ids) // 2
    assert offsets[half:] == tokens.offsets(ids[half:], offsets[half], ids[:half])


def test_half_characters_are_written_in_bytes() -> None:
    tokens = TokenTexts(ByteTokenizer())
    assert [tokens.text(number) for number in "é€"[:1].encode()] == ["bytes:\\xc3", "bytes:\\xa9"]
    assert tokens.text(97) == "a"


def test_tokens_inside_other_tokenizers() -> None:
    labelled = TokenTexts(LabelledTokenizer(ByteTokenizer(), ["good", "bad"]))
    assert labelled.spelling(0xE2) == b"\xe2"
    moved = TokenTexts(Seq2SeqTokenizer(ByteTokenizer()))
    assert moved.text(moved.encode("a")[0]) == "a"


def test_marks_around_a_text() -> None:
    for kind in (WordPiece, BERTWordTokenizer):
        tokenizer: Any = kind.train(TEXT, 400)
        tokens = TokenTexts(tokenizer)
        ids = tokens.encode("the fox")
        assert (ids[0], ids[-1]) == (tokenizer.special_tokens["cls"], tokenizer.special_tokens["sep"])
        assert ids[1:-1] == tokens.encode("the fox", special=False) == tokenizer.encode("the fox").tolist()
    assert TokenTexts(ByteTokenizer()).encode("ab") == [97, 98]


def test_marks_inside_a_text_are_meant_only_where_they_are_asked_for() -> None:
    tokenizer: Any = ByteBPE.train(TEXT, 400, special_tokens=("end",))
    tokens = TokenTexts(tokenizer)
    end = tokenizer.special_tokens["end"]
    assert end not in tokens.encode("the</s>fox")
    assert tokens.encode_special("the</s>fox</s>") == [*tokenizer.encode("the").tolist(), end, *tokenizer.encode("fox").tolist(), end]
