from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from weft.data.base import Batch
from weft.models.language.bert import TINY
from weft.objectives.language.multiple_choice import MultipleChoiceConfig

B, N, T, V = 5, 4, 9, 30


def batch() -> Batch:
    torch.manual_seed(1)
    lengths = torch.randint(4, T + 1, (B, N))
    ids = torch.randint(5, V, (B, N, T)).masked_fill(torch.arange(T) >= lengths[..., None], 0)
    segments = (torch.arange(T) >= 3).long().expand(B, N, T) * (torch.arange(T) < lengths[..., None])
    return {"ids": ids, "segments": segments, "lengths": lengths, "label": torch.tensor([0, 3, 1, 2, 0])}


@torch.no_grad()
def test_it_is_a_loop_over_choices_and_a_softmax_over_their_scores() -> None:
    torch.manual_seed(0)
    model = dataclasses.replace(TINY, task="choose", vocabulary=V, context=T, init_std=0.3).build().eval()
    data, loss, right = batch(), 0.0, 0
    for row in range(B):
        scores = []
        for choice in range(N):
            size = int(data["lengths"][row, choice])
            ids, segments = (data[name][row, choice, :size].unsqueeze(0) for name in ("ids", "segments"))
            scores.append(float(model.head(model.pooled(model.hidden(ids, segments)))))
        label = int(data["label"][row])
        loss -= math.log(math.exp(scores[label]) / sum(map(math.exp, scores)))
        right += scores.index(max(scores)) == label
    objective = MultipleChoiceConfig().build()
    terms = objective(model, data, "")
    assert float(terms.sums["loss"]) == pytest.approx(loss, abs=1e-4)
    assert float(terms.metrics["accuracy"]) == right
    assert objective.counts(data) == {"loss": torch.tensor(float(B)), "accuracy": torch.tensor(float(B))}


@torch.no_grad()
def test_the_order_of_the_choices_does_not_matter() -> None:
    torch.manual_seed(0)
    model = dataclasses.replace(TINY, task="choose", vocabulary=V, context=T, init_std=0.3).build().eval()
    data = batch()
    order = torch.tensor([2, 0, 3, 1])
    other = {name: part[:, order] for name, part in data.items() if name != "label"}
    other["label"] = order.argsort()[data["label"]]
    objective = MultipleChoiceConfig().build()
    torch.testing.assert_close(objective(model, other, "").sums["loss"], objective(model, data, "").sums["loss"])
