"""Asking: rows of any length at once give what each gives alone, by hand; baselines and scores."""

from __future__ import annotations

import pytest
import torch

import weft
from tests.contracts.tiny import tiny
from weft.core.errors import CapabilityError
from weft.data.tokenizers.birthplace_characters import MASK, MASK_CHARACTER
from weft.projects.birthplace.answers import LONGEST, Answer, always, ask, commonest, score
from weft.runs.assemble import assemble


@pytest.fixture(scope="module", params=["birthplace/made_up", "birthplace/made_up_perceiver", "birthplace/perceiver"])
def loaded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> weft.runs.load.Loaded:
    folder = tmp_path_factory.mktemp("answers")
    assemble(tiny(request.param, folder, {"data.context": 128, "model.context": 128}), folder / "run").trainer.fit()
    return weft.load(folder / "run", device="cpu")


def by_hand(loaded: weft.runs.load.Loaded, question: str) -> tuple[str, float]:
    """One character at a time, no padding."""
    ids, chance = loaded.tokenizer.encode(question + MASK_CHARACTER).tolist(), 1.0
    start = len(ids)
    with torch.no_grad():
        for _ in range(LONGEST):
            likely = loaded.model(torch.tensor([ids]))[0, -1].double().softmax(-1)
            chance *= float(likely.max())
            ids.append(int(likely.argmax()))
            if ids[-1] == MASK:
                break
    return loaded.tokenizer.decode(ids[start:]).split(MASK_CHARACTER)[0], chance


def test_rows_of_any_length_are_answered_as_each_alone(loaded: weft.runs.load.Loaded) -> None:
    questions = ["Where was Ada born?", "Where?", "Where was Bartholomew Longname of Somewhere born?"]
    for batch in (1, 2, 8):
        for answer in ask(loaded.model, loaded.tokenizer, [(question, None) for question in questions], batch):
            text, chance = by_hand(loaded, answer.question)
            assert answer.text == text
            assert answer.confidence == pytest.approx(chance, rel=1e-3)


def test_a_long_question_keeps_its_end(loaded: weft.runs.load.Loaded) -> None:
    (answer,) = ask(loaded.model, loaded.tokenizer, [("so " * 100 + "where was Ada born?", None)])
    assert 0.0 <= answer.confidence <= 1.0


def test_what_cannot_be_asked_is_said(loaded: weft.runs.load.Loaded, caplog: pytest.LogCaptureFixture) -> None:
    asked, without = (ask(loaded.model, loaded.tokenizer, [("Where?", None), (question, None)]) for question in ("où?", "o?"))
    assert [answer.text for answer in asked] == [answer.text for answer in without]
    assert "questions: 1 × characters that the model does not know, left out: 'ù' (U+00F9)" in caplog.messages
    with pytest.raises(CapabilityError, match="no special token"):
        ask(loaded.model, None, [("Where?", None)])


def test_scores_and_baselines() -> None:
    asked = [("a", "Rome"), ("b", "Oslo"), ("c", "Rome"), ("d", None)]
    assert score(always("Rome", asked)) == (3, 2)
    assert score([Answer("d", "Rome", 1.0)]) == (0, 0)
    assert commonest(["Oslo", "Rome", "Rome", "Bern", "Bern"]) == "Bern"
