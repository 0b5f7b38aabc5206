from __future__ import annotations

import dataclasses

import pytest
import torch
import torch.nn.functional as F

from weft.data.base import IGNORE
from weft.models.language.bert import TINY
from weft.objectives.language.token_classification import TokenClassificationConfig


def test_loss_and_accuracy_are_over_the_first_tokens_of_words() -> None:
    torch.manual_seed(0)
    settings = {"vocabulary": 30, "context": 8, "task": "tag", "classes": 4, "dropout": 0.0, "attention_dropout": 0.0, "init_std": 0.5}
    model = dataclasses.replace(TINY, **settings).build().eval()  # type: ignore[arg-type]
    tags = torch.full((2, 8), IGNORE)
    tags[0, 1], tags[0, 3], tags[1, 2] = 2, 0, 3
    data = {"ids": torch.randint(5, 30, (2, 8)), "lengths": torch.tensor([8, 4]), "tags": tags}
    objective = TokenClassificationConfig().build()
    terms = objective(model, data, "")
    places = [(0, 1), (0, 3), (1, 2)]
    logits = [model.tag(data["ids"][row : row + 1, : int(data["lengths"][row])])[0, place] for row, place in places]
    by_hand = sum(F.cross_entropy(each, tags[place]).item() for each, place in zip(logits, places, strict=True))
    assert terms.sums["loss"].item() == pytest.approx(by_hand, rel=1e-5)
    assert int(terms.metrics["accuracy"]) == sum(int(each.argmax()) == int(tags[place]) for each, place in zip(logits, places, strict=True))
    assert {name: float(value) for name, value in objective.counts(data).items()} == {"loss": 3.0, "accuracy": 3.0}
