from __future__ import annotations

import pytest

from weft.core.errors import DataError
from weft.data.tables.columns import Column, Columns
from weft.data.tokenizers import base as tokenizers
from weft.data.tokenizers.base import ByteTokenizer, CharacterTokenizer, ClassNames, Tokenizer, WhitespaceTokenizer, WordTokenizer
from weft.data.tokenizers.special_tokens import Seq2SeqTokenizer

TEXT = "The cat, the dog.\nnaïve Ω 😀 the end\n"
ALL = [
    ByteTokenizer(),
    CharacterTokenizer.train(TEXT),
    WordTokenizer.train(TEXT),
    ClassNames(["cat", "dog"]),
    Seq2SeqTokenizer(CharacterTokenizer.train(TEXT)),
    Columns("label", ["a", "b"], [Column("x", True, 1.5, 2.0), Column("y", False)], 16, 3),
]


@pytest.mark.parametrize("tokenizer", ALL, ids=lambda tokenizer: tokenizer.name)
def test_saved_and_read_back(tokenizer: Tokenizer) -> None:
    again = tokenizers.load(tokenizers.dump(tokenizer))
    assert again.to_json() == tokenizer.to_json()
    assert again.size == tokenizer.size


@pytest.mark.parametrize("tokenizer", [ALL[0], ALL[1], ALL[4]], ids=lambda tokenizer: tokenizer.name)
def test_text_comes_back(tokenizer: Tokenizer) -> None:
    assert tokenizer.decode(tokenizer.encode(TEXT).tolist()) == TEXT
    assert len(tokenizer.encode("")) == 0


def test_a_vocabulary_of_chinese_characters() -> None:
    """The 3,755 characters of the first level of GB 2312, by which nearly all of a modern text is written, and what stands between."""
    pairs = ((row, cell) for row in range(0xB0, 0xD8) for cell in range(0xA1, 0xFF if row < 0xD7 else 0xFA))
    text = "".join(bytes(pair).decode("gb2312") for pair in pairs) + "，。！？：“”、\n →GPT-3"
    tokenizer = CharacterTokenizer.train(text)
    assert tokenizer.size == len(set(text)) == 3755 + len(set("，。！？：“”、\n →GPT-3"))
    again = tokenizers.load(tokenizers.dump(tokenizer))
    for some in (text, text[::-1], "翻译：将以下英文翻译成中文。", ""):
        assert again.decode(tokenizer.encode(some).tolist()) == some
    assert len(tokenizer.encode("机器学习")) == 4


@pytest.mark.parametrize("text", ["\ud800", "a\udc80b", "\udfff\ud800", "😀\ud83d"])
def test_bytes_take_any_string(text: str) -> None:
    assert len(ByteTokenizer().encode(text)) > 0


def test_unknown_things_are_named() -> None:
    assert CharacterTokenizer("ab").encode("azb").tolist() == [0, 1]
    assert Seq2SeqTokenizer(CharacterTokenizer("ab")).unknown("azbz") == "zz"
    with pytest.raises(DataError, match="did you mean 'cat'"):
        ClassNames(["cat", "dog"]).encode("cta")
    assert WordTokenizer.train("a a b", 2).encode("a b c").tolist() == [1, 0, 0]
    assert ClassNames(["cat", "dog"]).decode([1, 0]) == "dog, cat"


def test_words_between_spaces_are_those_of_penn_treebank() -> None:
    text = " mr. <unk> is n.v. 's <unk> \n no it is n't \n"
    tokenizer = WhitespaceTokenizer.train(text)
    assert set(tokenizer.words) == {"<unk>", "<eos>", "mr.", "is", "n.v.", "'s", "no", "it", "n't"}  # type: ignore[attr-defined]
    ids = tokenizer.encode(text).tolist()
    assert ids[1] == ids[5] == 0 and len(ids) == 12
    assert tokenizer.decode(ids).strip() == "mr. <unk> is n.v. 's <unk>\nno it is n't"
    assert WhitespaceTokenizer.train(text, 3).encode("is was no").tolist()[1:] == [0, 0]


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{}", b"3", b"\xff", b'{"type": "characters"}', b'{"type": "seq2seq", "inner": 3}', b"[" * 100000]
)
def test_a_damaged_file_is_one_sentence(data: bytes) -> None:
    with pytest.raises(DataError, match="tokenizer cannot be read"):
        tokenizers.load(data)
