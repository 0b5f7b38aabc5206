"""Files in SQuAD's layout: both versions, compressed or not, and what is wrong with them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from tests.data.test_fuzz import use
from weft.core.errors import DataError
from weft.data.annotated.spans import SpansConfig
from weft.data.annotated.squad import SpanExample, read_squad
from weft.data.base import Problems

TEXT = "The moon is near. The sun is not."


def question(number: int, *answers: tuple[str, int], **more: Any) -> dict[str, Any]:
    given = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": f"q{number}", "question": f"What is {number}?", "answers": given, **more}


def written(folder: Path, *questions: Any, name: str = "my.json", text: Any = TEXT) -> str:
    content = json.dumps({"version": "1.1", "data": [{"title": "sky", "paragraphs": [{"context": text, "qas": list(questions)}]}]}).encode()
    (folder / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return str(folder / name)


def read(path: str) -> tuple[list[SpanExample], Problems]:
    problems = Problems()
    return [asked for group in read_squad(path, problems) for asked in group], problems


@pytest.mark.parametrize("name", ["my.json", "my.json.gz"])
def test_both_versions(tmp_path: Path, name: str) -> None:
    plausible = {"plausible_answers": [{"text": "sun", "answer_start": 22}], "is_impossible": True}
    asked, problems = read(written(tmp_path, question(1, ("moon", 4), ("The moon", 0)), question(2, **plausible), name=name))
    assert [(one.name, one.references) for one in asked] == [("q1", ("moon", "The moon")), ("q2", ())]
    assert [one.paragraph[slice(*one.span)] for one in asked] == ["moon", ""]
    assert not problems.counts


def test_questions_about_a_paragraph_stay_together(tmp_path: Path) -> None:
    paragraphs = [{"context": f"{TEXT} {n}", "qas": [question(10 * n + i, ("moon", 4)) for i in range(3)]} for n in range(10)]
    (tmp_path / "a.json").write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
    data = SpansConfig(path=str(tmp_path / "a.json"), validation=0.3, tokenizer="bert_words").build()
    train, held = ({window.example.paragraph for window in part.windows} for part in (data.train, data.validation))  # type: ignore[union-attr]
    assert (len(train), len(held), len(train & held)) == (7, 3, 0)
    assert (data.info["training_questions"], data.info["validation_questions"]) == (21, 9)


def test_an_answer_that_is_elsewhere_is_found_and_counted(tmp_path: Path) -> None:
    """A wrong start, none, a start before white space; one that is nowhere counts as reference only."""
    questions = [question(1, ("sun", 4)), question(2, ("stars", 0), ("sun", 22)), question(3, (" near ", 11)), question(4, ("stars", 0))]
    questions[0]["answers"].append({"text": "moon"})
    asked, problems = read(written(tmp_path, *questions))
    assert [one.paragraph[slice(*one.span)] for one in asked] == ["sun", "sun", "near"]
    assert asked[1].references == ("stars", "sun")
    assert problems.counts == {
        "answers that do not begin at their answer_start, their first occurrence is taken": 2,
        "answers that do not begin at their answer_start, which is not in the paragraph either": 2,
        "questions without an answer that is in the paragraph, left out": 1,
    }
    assert problems.places["questions without an answer that is in the paragraph, left out"] == [
        f"{tmp_path / 'my.json'}: data[0].paragraphs[0].qas[3]"
    ]


def test_what_cannot_be_used_is_named(tmp_path: Path) -> None:
    good, twin = question(1, ("moon", 4)), question(1, ("sun", 22))
    asked, problems = read(
        written(tmp_path, good, twin, "text", {"id": 5, "question": " "}, {"question": "Why?"}, question(6, ("", 0)), {**good, "id": None})
    )
    assert [one.name for one in asked] == ["q1", *(f"{tmp_path / 'my.json'}: data[0].paragraphs[0].qas[{n}]" for n in (1, 6))]
    assert problems.counts == {
        "questions without a unique id, which get their location as id": 2,
        "members of qas that are not JSON objects, left out": 1,
        "questions without text, left out": 1,
        "questions without a list of answers, left out": 1,
        "questions without an answer that is in the paragraph, left out": 1,
    }


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "layout of SQuAD"),
        ('{"data": 3}', "layout of SQuAD"),
        ('{"data": []}', "no usable"),
    ],
)
def test_a_file_of_another_kind_is_refused_in_one_sentence(tmp_path: Path, content: str, says: str) -> None:
    (tmp_path / "my.json").write_text(content)
    with pytest.raises(DataError, match=says) as error:
        read(str(tmp_path / "my.json"))
    assert str(error.value).startswith(str(tmp_path / "my.json"))


ANY = st.one_of(st.none(), st.integers(), st.text(max_size=5), st.just("\ud800"), st.lists(st.integers(), max_size=2))


def entry(**fields: Any) -> st.SearchStrategy[Any]:
    """An object that has each field, another value in its place, or no such field."""
    return st.one_of(st.fixed_dictionaries({}, optional={name: st.one_of(value, value, ANY) for name, value in fields.items()}), ANY)


ANSWER = entry(text=st.sampled_from(["moon", "sun", " ", "\ud800"]), answer_start=st.integers(-3, 40))
ASKED = entry(id=st.text(max_size=3), question=st.text(max_size=9), answers=st.lists(ANSWER, max_size=3))
FILE = entry(
    data=st.lists(entry(paragraphs=st.lists(entry(context=st.sampled_from([TEXT, "", "\u0301"]), qas=st.lists(ASKED, max_size=4)))))
)


def test_any_json_works_or_is_one_sentence(tmp_path: Path) -> None:
    @settings(max_examples=60)
    @given(FILE)
    def check(content: Any) -> None:
        (tmp_path / "my.json").write_text(json.dumps(content))
        use(SpansConfig(path=str(tmp_path / "my.json"), tokenizer="bert_words", context=8, stride=2))

    check()
