"""Windows and answers: every token is read, every answer is found again as text."""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

from weft.core.errors import ConfigError, DataError
from weft.data.annotated.spans import Spans, SpansConfig, window_ranges
from weft.data.annotated.squad import SpanExample
from weft.data.base import Problems
from weft.data.text.sentence_pairs import CLS, PAD, SEP, SPECIAL_TOKENS, BERTWordTokenizer
from weft.data.tokenizers.base import ByteTokenizer

LETTERS = "abcdeXYZ ÄéİßΣ中文 ,.-'()🙂12_"
PARAGRAPHS = st.text(LETTERS + "   ", min_size=1, max_size=80).filter(str.strip)


@cache
def tokenizer(unit: str) -> Any:
    if unit == "bert_words":
        return BERTWordTokenizer.train("the moon is near abcde xyz 12", 40)
    subwords = pytest.importorskip("weft.data.tokenizers.subwords", exc_type=ImportError)
    pytest.importorskip("tokenizers")
    return subwords.WordPiece.train(f"the moon is near {LETTERS} abc bcd cde xyz", 60)


def asked(paragraph: str, span: tuple[int, int], question: str = "the moon") -> SpanExample:
    references = (paragraph[slice(*span)],) if span != (0, 0) else ()
    return SpanExample("1", question, paragraph, references, span, "here")


def dataset(one: SpanExample, unit: str, problems: Problems, **settings: int) -> Spans:
    return SpansConfig(**settings).dataset([one], tokenizer(unit), problems)  # type: ignore[arg-type]


@pytest.mark.parametrize("unit", ["bert_words", "wordpiece"])
@given(PARAGRAPHS, st.integers(0, 80), st.integers(0, 80), st.integers(8, 40), st.integers(1, 20))
def test_every_answer_is_found_again_as_text(unit: str, paragraph: str, begin: int, size: int, context: int, stride: int) -> None:
    """An answer of whole words is exactly what its tokens stand for; any other lies within them."""
    words = [(start, start + len(word)) for word, start in places(paragraph)]
    span = (words[begin % len(words)][0], words[min(begin % len(words) + size, len(words) - 1)][1])
    problems = Problems()
    found = dataset(asked(paragraph, span), unit, problems, context=context, stride=stride)
    texts = [window.text(*ends) for window, ends in zip(found.windows, found.spans.tolist(), strict=True) if ends[0]]
    assert set(texts) <= {paragraph[slice(*span)]}
    room = context - 1 - found.windows[0].position
    tokens = len(tokenizer(unit).encode(paragraph[slice(*span)]))
    if tokens <= room - min(stride, room) + 1:
        assert texts, "an answer no longer than what two windows share lies in one of them"
    assert not problems.counts


def places(paragraph: str) -> list[tuple[str, int]]:
    """The words between spaces, each with its first character."""
    found, start = [], 0
    for word in paragraph.split(" "):
        if word:
            found.append((word, start))
        start += len(word) + 1
    return found


@pytest.mark.parametrize("unit", ["bert_words", "wordpiece"])
@given(PARAGRAPHS, st.integers(0, 79), st.integers(1, 80))
def test_an_answer_inside_a_word_is_taken_with_the_whole_of_it(unit: str, paragraph: str, begin: int, size: int) -> None:
    begin %= len(paragraph)
    text = paragraph[begin : begin + size].strip()
    if text:
        begin = paragraph.index(text, begin)
        problems = Problems()
        found = dataset(asked(paragraph, (begin, begin + len(text))), unit, problems, context=256, stride=128)
        answer = found.windows[0].text(*found.spans[0].tolist())
        assert text in answer
        inside = "answers that begin or end inside a token, taken with the whole of it"
        assert problems.counts == ({inside: 1} if text != answer else {})


@given(PARAGRAPHS, st.integers(8, 30), st.integers(1, 30), st.integers(1, 9))
def test_windows_cover_the_paragraph_and_fit(paragraph: str, context: int, stride: int, question: int) -> None:
    one = asked(paragraph, (0, 0), "the moon is near the moon")
    found = dataset(one, "bert_words", Problems(), context=context, stride=stride, max_question_length=question)
    ids, offsets = tokenizer("bert_words").encode_with_offsets(paragraph)
    batch = found.batch(torch.arange(len(found)), torch.zeros(len(found), dtype=torch.int64))
    seen: set[int] = set()
    rows = zip(batch["ids"], batch["segments"], batch["lengths"].tolist(), found.windows, strict=True)
    for number, (row, segments, length, window) in enumerate(rows):
        assert row[0] == CLS and row[window.position - 1] == SEP and row[length - 1] == SEP and (row[length:] == PAD).all()
        assert segments.tolist() == [0] * window.position + [1] * (length - window.position) + [0] * (len(row) - length)
        assert length <= context
        room = context - 1 - window.position
        start = number * min(stride, room)
        assert row[window.position : length - 1].tolist() == ids[start : start + room].tolist()
        assert window.offsets.tolist() == offsets[start : start + room].tolist()
        seen |= set(range(start, min(start + room, len(ids))))
    assert seen == set(range(len(ids)))
    assert [window.last for window in found.windows] == [False] * (len(found) - 1) + [True]
    assert not batch["first"].any() and not batch["last"].any()


@given(st.integers(1, 200), st.integers(1, 50), st.integers(1, 80))
def test_ranges_cover_without_a_superfluous_one(size: int, room: int, stride: int) -> None:
    ranges = window_ranges(size, room, stride)
    assert sorted({place for start, stop in ranges for place in range(start, stop)}) == list(range(size))
    assert all(stop - start <= room and stop < size for start, stop in ranges[:-1])
    assert [start for start, _ in ranges] == [number * min(stride, room) for number in range(len(ranges))]


@pytest.mark.parametrize("text", ["The Moon's\nnear, the SUN.", "İİ ıΣΑΣ ß ﬁn", "", "x_1 中文 é🙂"])
@pytest.mark.parametrize("unit", ["bert_words", "wordpiece"])
def test_offsets_belong_to_the_ids(unit: str, text: str) -> None:
    ids, offsets = tokenizer(unit).encode_with_offsets(text)
    assert ids.tolist() == tokenizer(unit).encode(text).tolist()
    assert offsets.shape == (len(ids), 2)
    assert all(0 <= start < stop <= len(text) for start, stop in offsets.tolist())
    assert sorted(offsets[:, 0].tolist()) == offsets[:, 0].tolist()


def test_a_window_without_the_whole_answer_points_at_cls() -> None:
    text = "abcde the moon is near xyz"
    found = dataset(asked(text, (6, 14), ""), "bert_words", Problems(), context=8, stride=1)
    assert [(window.text(*ends) if ends[0] else "") for window, ends in zip(found.windows, found.spans.tolist())] == ["the moon"] * 2


def test_a_question_takes_at_most_half_and_an_empty_answer_is_left_out() -> None:
    problems = Problems()
    long = dataset(asked("the moon", (4, 8), "is " * 50), "bert_words", problems, context=16)
    assert long.windows[0].position == 8
    assert problems.counts == {"questions truncated to 6 tokens": 1}
    assert not len(dataset(asked("the \u0301", (4, 5)), "wordpiece", problems))
    assert problems.counts["questions whose paragraph or answer has no token, left out"] == 1


def write(folder: Path) -> str:
    """A file with one question that has an answer and one that has none."""
    answers = [[{"text": "moon", "answer_start": 4}], []]
    qas = [{"id": str(n), "question": "What is near?", "answers": given} for n, given in enumerate(answers)]
    paragraphs = [{"context": "the moon is near", "qas": qas}]
    (folder / "my.json").write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
    return str(folder / "my.json")


def test_built_data_and_the_tokens_of_another_model(tmp_path: Path) -> None:
    path = write(tmp_path)
    known = BERTWordTokenizer([*SPECIAL_TOKENS, "the", "moon"])
    data = SpansConfig(path=path, validation_path=path, context=16).build_with(known)
    assert data.tokenizer is known
    expected = {"vocabulary": 7, "context": 16, "tokens": 11, "training_questions": 2, "training_windows": 2, "validation_questions": 2}
    assert expected.items() <= data.info.items()
    batch = data.train.batch(torch.tensor([0, 1]), torch.tensor([0, 0]))
    assert batch["ids"][0].tolist() == [CLS, 1, 1, 1, 1, SEP, 5, 6, 1, 1, SEP]
    assert (batch["first"].tolist(), batch["last"].tolist()) == ([7, 0], [7, 0])
    with pytest.raises(DataError, match="'bytes' has no special token for cls, sep, padding"):
        SpansConfig(path=path).build_with(ByteTokenizer())


@pytest.mark.parametrize(
    "wrong",
    [
        {"context": 7},
        {"stride": 0},
        {"max_question_length": 0},
        {"vocabulary": -1},
        {"validation": 1.0},
        {"null_score_threshold": math.nan},
    ],
)
def test_settings_that_cannot_work_are_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"--data.{next(iter(wrong))}"):
        SpansConfig(path=write(tmp_path), **wrong).build()
