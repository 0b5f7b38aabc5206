from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from tests.data.test_fuzz import JSON_LINES, use
from weft.core.errors import ConfigError, DataError
from weft.data.annotated.choices import ChoicesConfig
from weft.data.annotated.label_tokens import LabelledTokenizer
from weft.data.base import Batch, Dataset
from weft.data.text.sentence_pairs import BERTWordTokenizer


def write(path: Path, records: list[Any]) -> str:
    path.write_text("\n".join(record if isinstance(record, str) else json.dumps(record) for record in records))
    return str(path)


def config(path: str, **settings: object) -> ChoicesConfig:
    return ChoicesConfig(path=path, **{"tokenizer": "bert_words", "validation": 0.0, "context": 16, **settings})  # type: ignore[arg-type]


def everything(dataset: Dataset | None) -> Batch:
    assert dataset is not None
    return dataset.batch(torch.arange(len(dataset)), torch.arange(len(dataset)))


def record(number: int, choices: int = 3) -> dict[str, Any]:
    return {"context": f"it is {number}", "choices": [f"then {i} " * (i + 1) for i in range(choices)], "label": number % choices}


def test_each_choice_is_packed_behind_the_text(tmp_path: Path) -> None:
    data = config(write(tmp_path / "a.jsonl", [record(i) for i in range(20)]), validation=0.1).build()
    assert (data.info["choices"], data.info["training_examples"], data.info["validation_examples"]) == (3, 18, 2)
    batch = everything(data.train)
    assert batch["ids"].shape == batch["segments"].shape == (18, 3, 6 + 6)
    assert data.info["tokens"] == 3 * 12
    assert batch["lengths"].tolist() == [[8, 10, 12]] * 18
    texts = [data.tokenizer.decode(row[:length].tolist()) for row, length in zip(batch["ids"][0], batch["lengths"][0], strict=True)]
    assert texts == [f"[CLS] it is 0 [SEP]{f' then {i}' * (i + 1)} [SEP]" for i in range(3)]
    assert batch["segments"][0, 1].tolist() == [0] * 5 + [1] * 5 + [0] * 2
    assert not data.problems.counts


def test_context_and_question_make_the_first_text(tmp_path: Path) -> None:
    records = [
        {"context": "dark", "question": "why", "choices": ["x", "y"], "label": 1},
        {"question": "why", "context": None, "choices": ["x", "y"], "label": 0},
    ]
    data = config(write(tmp_path / "a.jsonl", records)).build()
    first = [data.tokenizer.decode(row[0].tolist()) for row in everything(data.train)["ids"]]
    assert first == ["[CLS] dark why [SEP] x [SEP]", "[CLS] why [SEP] x [SEP] [PAD]"]


def test_every_unusable_row_is_counted_and_named(tmp_path: Path) -> None:
    bad = [
        "{", "17", "[" * 5000, "", {"choices": ["a", "b"], "label": 0}, {"context": "x", "choices": ["a"], "label": 0},
        {"context": "x", "choices": "ab", "label": 0}, {"context": "x", "choices": ["a", 3], "label": 0},
        {"context": "x", "choices": ["a", "b"], "label": 2}, {"context": "x", "choices": ["a", "b"], "label": True},
        {"context": "x", "choices": ["a", "b"]}, {"context": 3, "choices": ["a", "b"], "label": 0}, record(1, choices=4),
    ]  # fmt: skip
    path = write(tmp_path / "a.jsonl", [record(0), record(1), *bad])
    data = config(path).build()
    assert data.info["training_examples"] == 2
    assert data.problems.counts == {
        "empty lines, left out": 1,
        "rows that are no multiple-choice example, left out": 11,
        "rows that do not have 3 choices, left out": 1,
    }
    places = [place for found in data.problems.places.values() for place in found]
    assert f"{path}:8 (choices is not a list of two texts or more)" in places
    assert f"{path}:11 (label is not a number from 0 to 1)" in places
    assert f"{path}:15 (4)" in places


def test_nothing_usable_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r'one JSON object per line, as \{"context"'):
        config(write(tmp_path / "a.jsonl", [{"text": "x", "label": 0}])).build()
    with pytest.raises(ConfigError, match=r"--data\.context must be at least"):
        config(write(tmp_path / "a.jsonl", [record(0)]), context=2).build()


def test_the_tokens_of_a_model_are_used(tmp_path: Path) -> None:
    tokens = BERTWordTokenizer.train("it is then", 8)
    path, held = write(tmp_path / "a.jsonl", [record(0)]), write(tmp_path / "b.jsonl", [record(1), record(2, choices=2)])
    data = config(path, validation_path=held).build_with(LabelledTokenizer(tokens, ["x", "y"]))
    assert data.tokenizer is tokens
    assert (data.info["vocabulary"], data.info["validation_examples"]) == (8, 1)


def test_any_bytes_work_or_are_one_sentence(tmp_path: Path) -> None:
    @settings(max_examples=40)
    @given(st.one_of(JSON_LINES, st.binary(max_size=300)), st.booleans())
    def check(content: bytes, some: bool) -> None:
        good = "\n".join(json.dumps(record(i)) for i in range(3)).encode() if some else b""
        (tmp_path / "a.jsonl").write_bytes(good + b"\n" + content)
        use(config(str(tmp_path / "a.jsonl"), validation=0.4))

    check()
