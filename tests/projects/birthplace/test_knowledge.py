"""What a model knows: confidence, calibration, people who do not exist."""

from __future__ import annotations

from pathlib import Path

import pytest

import weft
from tests.contracts.tiny import tiny
from weft.projects.birthplace.answers import Answer, ask
from weft.projects.birthplace.knowledge import chance, confidence_bins, examine, made_up, namesakes, separation
from weft.projects.birthplace.page import knowledge_page
from weft.runs.assemble import assemble

NAMES = ["Ada Berg", "Carl Dorn", "Eva Falk", "Gina Holm"]


def test_bins_hold_every_known_answer_once() -> None:
    answers = [Answer("q", "x", c / 20, "x" if c % 2 else "y") for c in range(21)] + [Answer("q", "x", 0.5)]
    bins = confidence_bins(answers)
    assert sum(b.answers for b in bins) == 21
    assert all(b.low <= b.confidence <= b.high for b in bins)
    assert bins[-1].answers == 3  # 0.9, 0.95 and 1


def test_separation_is_the_area_under_the_curve() -> None:
    assert separation([0.9, 0.8], [0.1, 0.2]) == 1.0
    assert separation([0.1], [0.9]) == 0.0
    assert separation([0.5, 0.7], [0.5]) == 0.75
    assert separation([], [0.5]) == 0.5


def test_nobody_is_called_what_the_made_up_people_are() -> None:
    names = made_up([f"Where was {name} born?" for name in NAMES], 9, seed=0)
    assert len(set(names)) == len(names) == 9
    assert not set(names) & set(NAMES)
    assert {name.split()[0] for name in names} <= {name.split()[0] for name in NAMES}
    assert names == made_up([f"Where was {name} born?" for name in NAMES], 9, seed=0)
    assert made_up(["Who are you?"], 5, seed=0) == []


def test_namesakes_against_chance() -> None:
    trained = [("Where was Ada Berg born?", "Rome"), ("Where was Carl Berg born?", "Oslo"), ("Where was Eva Falk born?", "Rome")]
    said = [Answer("Where was Eva Berg born?", "Rome", 0.5)]
    assert namesakes(said, trained, 0) == 1.0
    assert namesakes(said, trained, -1) == 0.5
    assert chance(said, trained) == pytest.approx(2 / 3)
    assert namesakes([Answer("Where was Nobody Here born?", "Rome", 0.5)], trained, 0) == 0.0


def test_a_whole_examination_and_its_page(tmp_path: Path) -> None:
    recipe = tiny("birthplace/made_up_only", tmp_path, {"train.steps": 100, "optim.lr": 1e-2})
    assemble(recipe, tmp_path / "run").trainer.fit()
    loaded = weft.load(f"{tmp_path / 'run'}@last")
    rows, _ = recipe.data.rows(weft.data.base.Problems())  # type: ignore[attr-defined]
    trained = [(row.question, row.place) for row in rows]
    answers = ask(loaded.model, loaded.tokenizer, trained)
    known = examine(loaded, answers, trained, invented=10)
    assert known.total == len(trained)
    assert known.correct == sum(answer.right for answer in answers)
    assert 0.0 <= known.calibration_error <= 1.0
    assert known.invented
    page = knowledge_page("a <model>", known, answers)
    assert "a &lt;model&gt;" in page
    assert answers[0].text in page
