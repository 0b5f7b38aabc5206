"""ROUGE, exact match and F1 of written answers, and recall of responses, by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import weft
from weft.core.errors import ConfigError
from weft.evaluation import question_answers, summaries, task_scores
from weft.evaluation.answer_rows import AnswerRow
from weft.evaluation.evaluate import evaluate
from weft.evaluation.responses import TFIDF, best, groups
from weft.runs.load import load

TEXT = "The cat slept. A dog barked at it. Nobody came."


def test_rouge_beside_the_first_sentences() -> None:
    rows = [AnswerRow(TEXT, "a dog slept", ("A dog barked at it",)), AnswerRow(TEXT, "fish", ("the cat slept", "nobody"))]
    found = summaries.scores(rows, None).metrics
    assert found["rouge1"] == pytest.approx((2 * 2 / 8 + 0) / 2) and found["rougeL"] == pytest.approx((2 * 2 / 8 + 0) / 2)
    assert found["copied"] == pytest.approx(3 / 4)
    assert summaries.lead(TEXT, 2) == "The cat slept. A dog barked at it."
    assert found["lead_rougeL"] == max(summaries.leads(rows, k)["rougeL"] for k in summaries.LEADS)


def test_answers_beside_the_nearest_sentence() -> None:
    source = f"question: Who barked at the cat? context: {TEXT}"
    assert question_answers.best_sentence(source) == "A dog barked at it."
    rows = [AnswerRow(source, "The dog!", ("A dog", "a dog barked")), AnswerRow(source, "cat", ("a dog",))]
    found = question_answers.scores(rows, None).metrics
    assert found["exact_match"] == 0.5 and found["f1"] == 0.5
    assert found["best_sentence_f1"] == pytest.approx((2 * 2 / (4 + 2) + 2 * 1 / (4 + 1)) / 2)


def test_every_task_has_its_own_scores() -> None:
    said = [("in words: 7", "seven", "seven"), ("in words: 8", "eigh", "eight"), ("sentiment: fine", "good", "good"), ("x", "a b", "a c")]
    found = task_scores.scores([AnswerRow(source, text, (right,)) for source, text, right in said], None).metrics
    assert found["exact-in-words"] == 0.5 and found["exact-sentiment"] == 1.0 and found["exact"] == 0.5
    assert found["f1-other"] == 0.0 and found["task_f1"] == pytest.approx((0.5 + 1.0 + found["f1-other"]) / 3)


def test_responses_are_chosen_from_their_group() -> None:
    pairs = [(f"where is the {word} ?", f"the {word} is here") for word in ("cat", "dog", "hen", "cow")] + [("where is the cat ?", "gone")]
    [group] = groups(pairs, 4)
    assert len({context for context, _ in group}) == len({response for _, response in group}) == 4
    assert best(TFIDF(pairs).similarities(pairs[:4])) == 4
    assert best(torch.tensor([[1.0, 0.0], [2.0, 1.0]])) == 1


def test_recall_of_a_model(tmp_path: Path) -> None:
    small = {"model.layers": 1, "model.heads": 2, "model.width": 16, "data.dialogues": 300, "train.steps": 2, "train.eval_every": 0}
    weft.train(weft.recipe("dialogue/transformer", small), out=tmp_path / "run", progress=False)
    loaded = load(f"{tmp_path / 'run'}@last")
    found = evaluate(loaded, "recall_at_1=3").metrics
    assert set(found) == {"recall_at_1", "tfidf_recall_at_1", "chance_recall_at_1"} and 0 <= found["recall_at_1"] <= 1
    assert found == evaluate(loaded, "recall_at_1=3").metrics
    with pytest.raises(ConfigError, match="2 to 100"):
        evaluate(loaded, "recall_at_1=1")
