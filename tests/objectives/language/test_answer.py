"""Answers: loss on the answer only, and right means right to the last character."""

from __future__ import annotations

from pathlib import Path

import torch

import weft
from tests.contracts.tiny import tiny
from weft.data.base import IGNORE
from weft.objectives.language.answer import AnswerConfig, right
from weft.projects.birthplace.answers import ask, score
from weft.runs.assemble import assemble


class Echo(torch.nn.Module):
    """Scores whatever it was given."""

    def __init__(self, logits: torch.Tensor):
        super().__init__()
        self.logits = logits

    def hidden(self, ids: torch.Tensor) -> torch.Tensor:
        return self.logits

    def head(self, states: torch.Tensor) -> torch.Tensor:
        return states


def test_the_mark_after_the_question_is_learned_but_not_asked_for() -> None:
    targets = torch.tensor([[IGNORE, 1, 4, 5, 1, IGNORE], [IGNORE, 1, 4, 5, 1, IGNORE], [IGNORE, 1, 4, 5, 1, IGNORE]])
    guesses = torch.tensor([[3, 1, 4, 5, 1, 0], [3, 2, 4, 5, 1, 0], [3, 1, 4, 6, 1, 0]])
    logits = torch.nn.functional.one_hot(guesses, 8).float()
    assert right(logits, targets).tolist() == [True, True, False]
    objective, batch = AnswerConfig().build(), {"ids": guesses, "targets": targets}
    terms, counts = objective(Echo(logits), batch, ""), objective.counts(batch)
    assert float(counts["loss"]) == 12
    assert float(counts["accuracy"]) == 3
    assert float(terms.metrics["accuracy"]) == 2
    expected = torch.nn.functional.cross_entropy(logits[:, 1:5].flatten(0, 1), targets[:, 1:5].flatten(), reduction="sum")
    assert torch.allclose(terms.sums["loss"], expected)


def test_one_pass_over_the_answers_tells_what_asking_gives(tmp_path: Path) -> None:
    """Half-trained, so that some answers are right and some are wrong."""
    recipe = tiny("birthplace/made_up_only", tmp_path, {"train.steps": 60, "optim.lr": 5e-3, "train.precision": "fp32"})
    assemble(recipe, tmp_path / "run").trainer.fit()
    loaded = weft.load(f"{tmp_path / 'run'}@last")
    measured = weft.evaluate(loaded, "accuracy")
    rows, _ = recipe.data.rows(weft.data.base.Problems())  # type: ignore[attr-defined]
    total, correct = score(ask(loaded.model, loaded.tokenizer, [(row.question, row.place) for row in rows]))
    assert measured["accuracy"] == correct / total
