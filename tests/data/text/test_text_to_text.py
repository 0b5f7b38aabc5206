"""Summaries, questions and dialogues as pairs of texts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from weft.core.errors import ConfigError, DataError
from weft.data.text.dialogues import TURN, DialoguesConfig
from weft.data.text.question_answers import QuestionAnswersConfig
from weft.data.text.summaries import SummariesConfig, pair_of
from weft.data.text.tasks import TasksConfig
from weft.evaluation.task_scores import task_of

DOCSTRING = """Open a file and return a stream.

    The file is opened in text mode unless a mode is given, and it has to be closed by whoever opened it."""


def texts(config: Any) -> tuple[list[Any], list[Any]]:
    made = config.build()
    return made.train.texts, made.validation.texts if made.validation else []


def test_the_first_line_sums_up_the_rest() -> None:
    body, summary = pair_of(DOCSTRING) or ("", "")
    assert summary == "Open a file and return a stream" and body.startswith("The file is opened in text mode unless")
    assert pair_of("Too short.\n\nLittle.") is None and pair_of("Only a line that stands alone.") is None


def test_summaries_of_an_own_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"article": f"a long text {i}", "summary": f"short {i}"}) + "\n" for i in range(10)))
    train, held = texts(SummariesConfig(path=str(path), source="article", target="summary", validation=0.2))
    assert len(train) == 8 and len(held) == 2


def squad(folder: Path) -> str:
    asked = [
        {"id": "1", "question": "Who came?", "answers": [{"text": "Anna", "answer_start": 0}, {"text": "Anna came", "answer_start": 0}]},
        {"id": "2", "question": "Who went?", "answers": []},
    ]
    (folder / "squad.json").write_text(json.dumps({"data": [{"paragraphs": [{"context": "Anna came.", "qas": asked}]}]}))
    return str(folder / "squad.json")


def test_questions_keep_all_their_answers(tmp_path: Path) -> None:
    made = QuestionAnswersConfig(path=squad(tmp_path), validation_path=squad(tmp_path)).build()
    [(source, answer)] = made.train.texts  # type: ignore[attr-defined]
    assert source == "question: Who came? context: Anna came."
    assert answer == "Anna" and answer.references == ("Anna", "Anna came")
    assert "without an answer" in str(made.problems.lines())


def test_made_up_questions_are_answered_in_their_paragraph() -> None:
    train, held = texts(QuestionAnswersConfig(paragraphs=50, seed=3))
    assert len(train) == 45 and len(held) == 5 and (train, held) == texts(QuestionAnswersConfig(paragraphs=50, seed=3))
    assert all(answer in source for source, answer in (*train, *held))
    with pytest.raises(ConfigError, match="paragraphs must be from 2"):
        QuestionAnswersConfig(paragraphs=1).build()


def test_dialogues_of_every_layout(tmp_path: Path) -> None:
    lines, rows = tmp_path / "dialogues.txt", tmp_path / "rows.jsonl"
    lines.write_text(f"A ? {TURN} B . {TURN} C ! {TURN}\nalone {TURN}\n")
    rows.write_text(json.dumps({"context": ["A ?", "B ."], "positive_responses": ["C !", "D"]}) + "\n[]\n")
    made = DialoguesConfig(path=str(lines), turns=1, validation=0.0).build()
    assert made.train.texts == [("A ?", "B ."), ("B .", "C !")]  # type: ignore[attr-defined]
    assert "lines without two turns" in str(made.problems.lines())
    assert texts(DialoguesConfig(path=str(lines), validation=0.0))[0][1] == (f"A ? {TURN} B .", "C !")
    assert texts(DialoguesConfig(path=str(rows), validation=0.0))[0] == [(f"A ? {TURN} B .", "C !"), (f"A ? {TURN} B .", "D")]
    (tmp_path / "none.txt").write_text("nothing\n")
    with pytest.raises(DataError, match="holds no dialogue"):
        DialoguesConfig(path=str(tmp_path / "none.txt")).build()


def test_tasks_have_their_names_in_front(tmp_path: Path) -> None:
    train, held = texts(TasksConfig(examples=20, validation=0.1))
    assert len(train) == 54 and len(held) == 6 and {task_of(source) for source, _ in held} == {"in-words", "sentiment", "question"}
    for name in ("a", "b"):
        (tmp_path / f"{name}.tsv").write_text(f"one {name}\tzwei\ntwo\teins\n")
    path = f"to German={tmp_path / 'a.tsv'},sentiment={tmp_path / 'b.tsv'}"
    own, _ = texts(TasksConfig(path=path, validation=0.0, header="no"))
    assert own == [("to German: one a", "zwei"), ("to German: two", "eins"), ("sentiment: one b", "zwei"), ("sentiment: two", "eins")]
    with pytest.raises(ConfigError, match="is no NAME=FILE"):
        TasksConfig(path=f"{path},c").build()


def test_small_talk_answers_what_was_said() -> None:
    train, held = texts(DialoguesConfig(dialogues=200))
    assert ("Hi", "Hello") in train + held
    last: dict[str, set[str]] = {}
    for source, answer in train + held:
        last.setdefault(source.split(f" {TURN} ")[-1], set()).add(answer)
    assert all(len(answers) == 1 for answers in last.values())
