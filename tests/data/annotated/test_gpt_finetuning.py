"""Texts between the marks of finetuning: every way of framing to the id, tokens old and new, and what is wrong with files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from tests.data.test_fuzz import JSON_LINES, TABLES, use
from weft.core.config import from_dict, to_dict
from weft.core.errors import ConfigError, DataError
from weft.data.annotated.gpt_finetuning import GPTFinetuningChoicesConfig, GPTFinetuningTextsConfig, GPTFinetuningTokenizer
from weft.data.annotated.label_tokens import LabelledTokenizer
from weft.data.base import Batch, Data, DataConfig, Dataset
from weft.data.tokenizers import base as tokenizers
from weft.data.tokenizers.base import ByteTokenizer, CharacterTokenizer, Tokenizer, WordTokenizer
from weft.data.tokenizers.subwords import ByteBPE

LETTERS = CharacterTokenizer("abcdefgh")  # a is 0
START, DELIMITER, EXTRACT = 8, 9, 10


def build(kind: type[DataConfig], path: Path, content: str, known: Tokenizer | None = LETTERS, **changes: Any) -> Data:
    path.write_text(content)
    return kind(path=str(path), **{"validation": 0.0, "context": 8, **changes}).build_with(known)


def texts(folder: Path, content: str, known: Tokenizer | None = LETTERS, **changes: Any) -> Data:
    return build(GPTFinetuningTextsConfig, folder / "a.tsv", content, known, **changes)


def choices(folder: Path, *records: dict[str, Any], known: Tokenizer | None = LETTERS, **changes: Any) -> Data:
    return build(GPTFinetuningChoicesConfig, folder / "a.jsonl", "\n".join(map(json.dumps, records)), known, **changes)


def everything(dataset: Dataset | None) -> Batch:
    assert dataset is not None
    return dataset.batch(torch.arange(len(dataset)), torch.arange(len(dataset)))


def test_the_class_of_a_text(tmp_path: Path) -> None:
    data = texts(tmp_path, "abc\tx\nh\ty\n")
    batch = everything(data.train)
    assert batch["ids"].tolist() == [[START, 0, 1, 2, EXTRACT], [START, 7, EXTRACT, EXTRACT, EXTRACT]]
    assert batch["lengths"].tolist() == [5, 3]
    assert batch["label"].tolist() == [0, 1]
    assert {"vocabulary": 11, "added_tokens": 3, "classes": 2, "context": 8, "tokens": 5}.items() <= data.info.items()


def test_the_class_of_a_pair(tmp_path: Path) -> None:
    batch = everything(texts(tmp_path, "ab\tcde\tx\nh\tg\ty\n").train)
    assert batch["ids"].tolist() == [
        [START, 0, 1, DELIMITER, 2, 3, 4, EXTRACT],
        [START, 7, DELIMITER, 6, EXTRACT, EXTRACT, EXTRACT, EXTRACT],
    ]
    assert batch["lengths"].tolist() == [8, 5]


def test_a_pair_in_both_orders(tmp_path: Path) -> None:
    data = texts(tmp_path, "ab\tcd\tx\nh\tg\ty\n", both_orders=True)
    batch = everything(data.train)
    assert batch["ids"].tolist() == [
        [[START, 0, 1, DELIMITER, 2, 3, EXTRACT], [START, 2, 3, DELIMITER, 0, 1, EXTRACT]],
        [[START, 7, DELIMITER, 6, EXTRACT, EXTRACT, EXTRACT], [START, 6, DELIMITER, 7, EXTRACT, EXTRACT, EXTRACT]],
    ]
    assert batch["lengths"].tolist() == [[7, 7], [5, 5]]
    assert (batch["label"].tolist(), len(data.train), data.info["tokens"]) == ([0, 1], 2, 14)


def test_choices(tmp_path: Path) -> None:
    first = {"context": "ab", "choices": ["c", "de"], "label": 1}
    data = choices(tmp_path, first, {"question": "h", "choices": ["g", "g"], "label": 0})
    batch = everything(data.train)
    assert batch["ids"].tolist() == [
        [[START, 0, 1, DELIMITER, 2, EXTRACT, EXTRACT], [START, 0, 1, DELIMITER, 3, 4, EXTRACT]],
        [[START, 7, DELIMITER, 6, EXTRACT, EXTRACT, EXTRACT]] * 2,
    ]
    assert batch["lengths"].tolist() == [[6, 7], [5, 5]]
    assert batch["label"].tolist() == [1, 0]
    assert {"choices": 2, "tokens": 14, "vocabulary": 11, "added_tokens": 3}.items() <= data.info.items()
    assert data.tokenizer.special_tokens == {"start": START, "delimiter": DELIMITER, "extract": EXTRACT}


def test_the_marks_stay_when_texts_are_cut(tmp_path: Path) -> None:
    data = texts(tmp_path, f"{'a' * 30}\t{'b' * 30}\tx\n{'a' * 30}\tb\ty\n", both_orders=True)
    batch = everything(data.train)["ids"]
    assert batch.shape == (2, 2, 8)
    assert (batch[..., 0] == START).all()
    assert (batch[..., -1] == EXTRACT).all()
    assert ((batch == DELIMITER).sum(-1) == 1).all()
    assert batch[1].tolist() == [[START, 0, 0, 0, 0, DELIMITER, 1, EXTRACT], [START, 1, DELIMITER, 0, 0, 0, 0, EXTRACT]]
    assert data.problems.lines()[0].startswith("4 × texts truncated to 8 tokens")


@pytest.mark.parametrize("inner", [ByteTokenizer(), LETTERS, WordTokenizer(["<unk>", "ab", "h"])])
def test_a_tokenizer_keeps_its_ids_and_gets_three_more(inner: Tokenizer) -> None:
    framed = GPTFinetuningTokenizer(inner)
    assert framed.encode("abh").tolist() == inner.encode("abh").tolist()
    assert (framed.size, list(framed.special_tokens.values())) == (inner.size + 3, [inner.size, inner.size + 1, inner.size + 2])
    ids = [
        framed.special_tokens["start"],
        *inner.encode("ab").tolist(),
        framed.special_tokens["delimiter"],
        *inner.encode("h").tolist(),
        framed.size - 1,
    ]
    assert framed.decode(ids) == "[start]ab[delimiter]h[extract]"
    again = tokenizers.load(tokenizers.dump(framed))
    assert isinstance(again, GPTFinetuningTokenizer)
    assert again.to_json() == framed.to_json()


def test_a_text_that_looks_like_a_mark_is_only_text(tmp_path: Path) -> None:
    batch = everything(texts(tmp_path, "[extract]\tx\n", ByteTokenizer(), context=16).train)
    assert batch["ids"].tolist() == [[256, *b"[extract]", 258]]


def test_pieces_of_words_of_a_model(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    known = ByteBPE.train("ab ab ab cd cd", 260)
    batch = everything(texts(tmp_path, "ab\tcd\tx\n", known).train)
    assert batch["ids"].tolist() == [[known.size, *known.encode("ab"), known.size + 1, *known.encode("cd"), known.size + 2]]


def test_without_a_model_tokens_are_learned(tmp_path: Path) -> None:
    data = texts(tmp_path, "ab ab\tx\ncd\ty\n", None, tokenizer="words")
    assert data.tokenizer.tokens.inner.words == ["<unk>", "ab", "\n", "cd"]
    assert everything(data.train)["ids"].tolist() == [[4, 1, 1, 6], [4, 3, 6, 6]]
    pytest.importorskip("tokenizers")
    default = GPTFinetuningTextsConfig()
    assert default.tokenizer == "byte_bpe"
    learned = texts(tmp_path, "ab ab\tx\ncd\ty\n", None, tokenizer=default.tokenizer)
    assert isinstance(learned.tokenizer.tokens.inner, ByteBPE)


def test_a_finetuned_model_keeps_its_marks_and_classes(tmp_path: Path) -> None:
    first = texts(tmp_path, "abc\tx\nh\ty\n")
    saved = tokenizers.load(tokenizers.dump(first.tokenizer))
    other = texts(tmp_path, "c\ty\nzz\tx\n", saved)
    assert other.info["vocabulary"] == 11
    assert everything(other.train)["ids"].tolist() == [[START, 2, EXTRACT], [START, EXTRACT, EXTRACT]]
    assert everything(other.train)["label"].tolist() == [1, 0]
    chosen = choices(tmp_path, {"context": "a", "choices": ["b", "c"], "label": 0}, known=saved)
    assert (chosen.info["vocabulary"], chosen.tokenizer.to_json()) == (11, first.tokenizer.tokens.to_json())
    numbers = texts(tmp_path, "a\t1\nb\t3\n", LabelledTokenizer(GPTFinetuningTokenizer(LETTERS), ["x"]), number=True)
    assert (numbers.info["vocabulary"], numbers.info["classes"]) == (11, 1)


def test_characters_that_a_model_never_met_are_left_out_and_counted(tmp_path: Path) -> None:
    data = texts(tmp_path, "a?b!\tx\nc\ty\n\N{SNOWMAN}\tx\n")
    assert everything(data.train)["ids"].tolist() == [
        [START, 0, 1, EXTRACT],
        [START, 2, EXTRACT, EXTRACT],
        [START, EXTRACT, EXTRACT, EXTRACT],
    ]
    path = tmp_path / "a.tsv"
    assert data.problems.lines() == [f"2 × texts with characters that the model does not know, left out: {path}:1, {path}:3"]


def test_settings_survive_json(tmp_path: Path) -> None:
    for made in (
        GPTFinetuningTextsConfig(path="x", tokenizer="bytes", both_orders=True),
        GPTFinetuningChoicesConfig(path="x", tokenizer="words"),
    ):
        assert from_dict(json.loads(json.dumps(to_dict(made))), DataConfig) == made
    with pytest.raises(ConfigError, match="'bert_words' is not one of"):
        from_dict({"type": "gpt_finetuning_texts", "tokenizer": "bert_words"}, DataConfig)


@pytest.mark.parametrize(
    ("content", "changes", "kind", "said"),
    [
        ("ab\tx\n", {"both_orders": True}, ConfigError, r"--data\.both-orders needs two texts, but .*a\.tsv:1 has one; .*--data\.second"),
        ("ab\tx\n", {"context": 3}, ConfigError, r"--data\.context must be at least 8"),
        ("ab\tx\n", {"validation": 2.0}, ConfigError, r"--data\.validation must be"),
        ("a\tb\tc\td\te\n", {}, DataError, r"which of its columns"),
        ("", {}, DataError, "is empty"),
    ],
)
def test_what_cannot_work_is_one_sentence(tmp_path: Path, content: str, changes: dict[str, Any], kind: type[Exception], said: str) -> None:
    with pytest.raises(kind, match=said) as caught:
        texts(tmp_path, content, **changes)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", [GPTFinetuningTextsConfig, GPTFinetuningChoicesConfig])
def test_any_bytes_work_or_are_one_sentence(tmp_path: Path, kind: type[GPTFinetuningTextsConfig]) -> None:
    path = tmp_path / ("a.tsv" if kind is GPTFinetuningTextsConfig else "a.jsonl")

    @settings(max_examples=30)
    @given(st.one_of(TABLES if kind is GPTFinetuningTextsConfig else JSON_LINES, st.binary(max_size=300)))
    def check(content: bytes) -> None:
        path.write_bytes(content)
        use(kind(path=str(path), tokenizer="characters", context=16, validation=0.3))

    check()
