"""Sentences with tags: both layouts, archives, alignment with tokens, and what is wrong with files."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from tests.data.test_fuzz import use
from weft.core.errors import ConfigError, DataError
from weft.data.annotated.label_tokens import LabelledTokenizer
from weft.data.annotated.sentences import read_sentences
from weft.data.annotated.tagged import Tagged, TaggedConfig, TagTokenizer, split_words
from weft.data.base import IGNORE, Data, Problems
from weft.data.text.sentence_pairs import CLS, PAD, SEP, SPECIAL_TOKENS, BERTWordTokenizer
from weft.data.tokenizers import base as tokenizers

LINES = "The\tDT\nmoon\tNN\n\nIt\tPRP\nis\tVBZ\nnear\tRB\n"
SLASHES = "\n\tThe/at moon/nn 's/nn$ ./.\n\n\n\tand/or/cc 1/2/cd\n"


def read(path: Path, content: str, layout: Any = "detect") -> tuple[list[tuple[Any, Any]], Problems]:
    path.write_text(content)
    problems = Problems()
    return [(one.words, one.tags) for one in read_sentences(str(path), layout, problems)], problems


@pytest.mark.parametrize("change", [("\t", "\t"), ("\t", " "), ("\t", "\tx\ty\t"), ("\n", "\r\n"), ("\t", " B-NP ")])
def test_a_word_and_its_tag_on_each_line(tmp_path: Path, change: tuple[str, str]) -> None:
    found, problems = read(tmp_path / "a.tsv", LINES.replace(*change))
    assert found == [(("The", "moon"), ("DT", "NN")), (("It", "is", "near"), ("PRP", "VBZ", "RB"))]
    assert not problems.counts


def test_words_with_a_slash_and_their_tag(tmp_path: Path) -> None:
    found, problems = read(tmp_path / "a.txt", SLASHES)
    assert found == [(("The", "moon", "'s", "."), ("at", "nn", "nn$", ".")), (("and/or", "1/2"), ("cc", "cd"))]
    assert not problems.counts


def test_flaws_are_counted_with_their_place(tmp_path: Path) -> None:
    found, problems = read(tmp_path / "a.tsv", "-DOCSTART- -X- O\n\nmoon\tNN\nsun\n\tVB\nsky\t \n")
    assert found == [(("moon",), ("NN",))]
    assert problems.counts == {"lines with -DOCSTART-, left out": 1, "lines without a word and its tag, left out": 3}
    assert problems.places["lines without a word and its tag, left out"] == [f"{tmp_path / 'a.tsv'}:{n}" for n in (4, 5, 6)]
    found, problems = read(tmp_path / "b.txt", "moon/nn sun\n /x sky/", layout="slashes")
    assert problems.lines() == [
        f"3 × words without a tag, left out: {tmp_path / 'b.txt'}:1 (sun), {tmp_path / 'b.txt'}:2 (/x), {tmp_path / 'b.txt'}:2 (sky/)"
    ]
    for content in ("", "\n\n", "moon\n"):
        with pytest.raises(DataError, match="holds no word with a tag"):
            read(tmp_path / "c.tsv", content)


def archive(path: Path, **texts: str) -> Path:
    with zipfile.ZipFile(path, "w") as made:
        for name, text in texts.items():
            made.writestr(f"brown/{name}", text)
    return path


def test_an_archive_is_read_where_it_has_the_layout_of_most(tmp_path: Path) -> None:
    path = archive(tmp_path / "brown.zip", cb="a/x b/y", ca="c/x", README="BROWN CORPUS\n")
    problems = Problems()
    assert [one.words for one in read_sentences(str(path), "detect", problems)] == [("c",), ("a", "b")]
    assert problems.lines() == [f"1 × files of an archive that are of another layout, not read: {path}/brown/README"]
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(DataError, match="cannot be read as a zip archive"):
        read_sentences(str(path), "detect", Problems())


def build(folder: Path, content: str, known: Any = None, **settings: Any) -> Data:
    path = folder / "my.tsv.gz"
    path.write_bytes(gzip.compress(content.encode()))
    return TaggedConfig(path=str(path), **{"validation_path": str(path), "tokenizer": "bert_words", **settings}).build_with(known)


def test_the_first_token_of_a_word_carries_its_tag(tmp_path: Path) -> None:
    known = BERTWordTokenizer([*SPECIAL_TOKENS, "o", "'", "hara", "sees"])
    data = build(tmp_path, "O'Hara\tB-PER\nsees\tO\n\u0301\tO\n", known)
    assert isinstance(data.tokenizer, TagTokenizer)
    batch = data.train.batch(torch.tensor([0]), torch.tensor([0]))
    assert batch["ids"][0].tolist() == [CLS, 5, 6, 7, 8, 1, SEP]
    assert batch["tags"][0].tolist() == [IGNORE, 0, IGNORE, IGNORE, 1, 1, IGNORE]
    assert batch["lengths"].tolist() == [7]
    assert {"classes": 2, "vocabulary": 9, "training_sentences": 1, "training_words": 3}.items() <= data.info.items()


@given(st.lists(st.lists(st.integers(5, 9), min_size=1, max_size=6), min_size=1, max_size=30), st.integers(6, 20))
def test_cut_words_are_all_the_words(words: list[list[int]], room: int) -> None:
    runs = list(split_words(words, room))
    assert [word for _, run in runs for word in run] == words
    assert [first for first, _ in runs] == [sum(len(run) for _, run in runs[:number]) for number in range(len(runs))]
    assert all(len(run) > 0 and sum(map(len, run)) <= room for _, run in runs)


def test_a_long_sentence_is_read_in_pieces(tmp_path: Path) -> None:
    words = [f"w{n}" for n in range(20)]
    data = build(tmp_path, "".join(f"{word}\tT{n % 3}\n" for n, word in enumerate(words)) + f"\nshort\tT0\n\n{'-' * 30}\tT1\n", context=10)
    assert isinstance(data.train, Tagged)
    assert [(piece.first, len(piece.positions)) for piece in data.train.chunks] == [(0, 8), (8, 8), (16, 4), (0, 1), (0, 1)]
    batch = data.train.batch(torch.arange(5), torch.zeros(5, dtype=torch.int64))
    told = [tag for row in batch["tags"].tolist() for tag in row if tag != IGNORE]
    assert told == [n % 3 for n in range(20)] + [0, 1]
    assert batch["lengths"].tolist() == [10, 10, 6, 3, 10]
    assert (batch["ids"][3, 3:] == PAD).all()
    assert data.problems.counts == {"sentences split where they exceed 10 tokens": 2}


def test_tags_survive_a_checkpoint_and_stay_those_of_the_model(tmp_path: Path) -> None:
    first = build(tmp_path, LINES)
    again = tokenizers.load(tokenizers.dump(first.tokenizer))
    assert isinstance(again, TagTokenizer)
    assert again.classes == ["DT", "NN", "PRP", "RB", "VBZ"]
    other = build(tmp_path, "near\tRB\nfar\tXX\n", again)
    assert other.info["classes"] == 5
    batch = other.train.batch(torch.tensor([0]), torch.tensor([0]))
    assert batch["tags"][0].tolist() == [IGNORE, 3, IGNORE, IGNORE]
    assert other.problems.counts == {"words whose tag does not occur in training, ignored": 1}
    with pytest.raises(DataError, match=r"none of its tags is one of the model.s \(DT, NN"):
        build(tmp_path, "far\tXX\n", again)


def test_a_classifier_brings_its_tokens_but_not_its_classes(tmp_path: Path) -> None:
    tokens = BERTWordTokenizer([*SPECIAL_TOKENS, "moon"])
    data = build(tmp_path, LINES, LabelledTokenizer(tokens, ["DT", "good", "bad"]))
    assert data.tokenizer.tokens is tokens
    assert data.info["classes"] == 5


def test_tags_can_be_shortened(tmp_path: Path) -> None:
    data = build(tmp_path, "A/nn-tl b/nn+bez c/* d/--- e/*-hl f/nn$", layout="slashes", cut="-+*")
    assert data.tokenizer.classes == ["*", "-", "nn", "nn$"]


def test_sentences_to_validate_on_are_held_out(tmp_path: Path) -> None:
    data = build(tmp_path, "\n\n".join(f"w{n}\tA\nx\tB" for n in range(10)), validation_path="", validation=0.3)
    assert isinstance(data.train, Tagged) and isinstance(data.validation, Tagged)
    train, held = ({piece.sentence.words[0] for piece in part.chunks} for part in (data.train, data.validation))
    assert (len(train), len(held), train & held) == (7, 3, set())
    with pytest.raises(ConfigError, match=r"--data\.context"):
        build(tmp_path, LINES, context=3)


WORDS = st.lists(st.sampled_from(["a", "b/x", "\t", " ", "\n", "\n\n", "/", "O", "B-x", "\u0301", "é", "\0"]), max_size=30).map("".join)


@pytest.mark.parametrize("name", ["a.tsv", "a.zip"])
def test_any_text_works_or_is_one_sentence(tmp_path: Path, name: str) -> None:
    @settings(max_examples=60)
    @given(st.one_of(WORDS, st.text(max_size=40)), st.binary(max_size=60))
    def check(text: str, raw: bytes) -> None:
        if name == "a.zip":
            archive(tmp_path / name, one=text, two="a/x")
        else:
            (tmp_path / name).write_bytes(text.encode(errors="replace") + raw)
        use(TaggedConfig(path=str(tmp_path / name), tokenizer="bert_words", context=8))

    check()
