"""A file given both to train and to validate on is read once: each of its flaws is counted once, and all of it is in both parts."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from weft.data.annotated.choices import ChoicesConfig
from weft.data.annotated.labelled_texts import LabelledTextsConfig
from weft.data.annotated.spans import SpansConfig
from weft.data.annotated.tagged import TaggedConfig
from weft.data.base import Problems
from weft.data.tables.table import TableConfig
from weft.data.text.cooccurrence import CooccurrenceConfig
from weft.data.text.pairs import PairsConfig
from weft.data.text.questions import QuestionsConfig
from weft.data.text.sentence_pairs import SentencePairsConfig
from weft.data.text.sentinels import T5SpanCorruptionConfig
from weft.data.text.span_corruption import SpanCorruptionConfig
from weft.data.text.token_windows import TextConfig

WORDS = "one two three four five six seven eight nine ten eleven"
PROSE = "\n\n".join(f"It is {word}. It is not {other}. Who is {other}?" for word in WORDS.split() for other in WORDS.split()) + "\0"
ROWS = "text\tlabel\n" + "".join(f"{WORDS} {i}\t{'ab'[i % 2]}\n" for i in range(9)) + "\tb\nc\t\n\n"
CHOICE = {"context": WORDS, "choices": ["yes", WORDS], "label": 0}
ASKED = {"id": "1", "question": WORDS, "answers": [{"text": "wo thre", "answer_start": 5}]}
SQUAD = {"data": [{"paragraphs": [{"context": f"{WORDS} {i}", "qas": [{**ASKED, "id": str(i)}, {"id": "x"}]} for i in range(3)]}]}
SOURCES: dict[str, tuple[Any, str]] = {
    "text": (TextConfig(context=8), PROSE),
    "cooccurrence": (CooccurrenceConfig(), PROSE),
    "sentence pairs": (SentencePairsConfig(vocabulary=50), PROSE),
    "sentinels": (T5SpanCorruptionConfig(vocabulary=300, context=16), PROSE),
    "corruption": (SpanCorruptionConfig(context=32), PROSE),
    "labelled texts": (LabelledTextsConfig(context=8, vocabulary=100), ROWS),
    "pairs": (PairsConfig(max_length=5), ROWS),
    "table": (TableConfig(), "size\tlabel\n" + "1\ta\n2\tb\nmany\tb\n4\t\n" * 3),
    "questions": (QuestionsConfig(), "Where was X born?\tBern\nWhére?\tUlm\nno tab\n\n"),
    "choices": (ChoicesConfig(context=8), "".join(json.dumps(CHOICE) + "\n" for _ in range(3)) + '{"context": "no"}\n'),
    "spans": (SpansConfig(context=24, max_question_length=4, vocabulary=100), json.dumps(SQUAD)),
    "tags": (TaggedConfig(context=8), "".join(f"{word}\tX\n" for word in WORDS.split()) + "\nno tag\n"),
}


@pytest.mark.parametrize("name", list(SOURCES))
def test_flaws_of_a_file_are_counted_once(name: str, tmp_path: Path) -> None:
    source, content = SOURCES[name]
    path = tmp_path / "my.txt"
    path.write_text(content, encoding="utf-8")
    settings = {"path": str(path)} | ({"validation": 0.0} if hasattr(source, "validation") else {"ascii": False})
    alone = dataclasses.replace(source, **settings).build()
    twice = dataclasses.replace(source, path=str(path), validation_path=str(path)).build()
    assert alone.problems.counts, "the file has flaws"
    assert twice.problems == alone.problems != Problems()
    assert twice.validation is not None
    assert len(twice.train) == len(alone.train)
