"""A class or choice and the text beside it: against loops, in both orders, whatever the padding, and what is refused."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from weft.core.errors import ConfigError
from weft.data.base import UNLABELLED, Batch
from weft.models.language.gpt import GPT, TINY
from weft.objectives.finetuning import Finetuning, FinetuningConfig
from weft.training.means import Means

B, N, T, V, C = 5, 3, 9, 20, 4


def gpt(classes: int, **settings: Any) -> GPT:
    torch.manual_seed(0)
    model = dataclasses.replace(TINY, vocabulary=V, context=T, classes=classes, **settings).build().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape))
    return model


def batch(*shape: int, classes: int = C) -> Batch:
    generator = torch.Generator().manual_seed(1)
    lengths = torch.randint(2, T + 1, shape, generator=generator)
    ids = torch.randint(V, (*shape, T), generator=generator).masked_fill(torch.arange(T) >= lengths[..., None], V - 1)
    return {"ids": ids, "lengths": lengths, "label": torch.randint(classes, shape[:1], generator=generator)}


def by_hand(model: GPT, ids: Tensor, length: int) -> tuple[Tensor, float]:
    """The last state of one sequence without what fills up, and -log p of its tokens."""
    row = ids[:length].unsqueeze(0)
    log_p = model(row).log_softmax(-1)[0]
    return model.hidden(row)[0, -1], -sum(float(log_p[place, row[0, place + 1]]) for place in range(length - 1))


def means(objective: Finetuning, model: GPT, data: Batch, parts: list[slice]) -> dict[str, float]:
    """What validation reports of a batch that comes in parts."""
    found = Means(objective)
    for part in parts:
        piece = {name: value[part] for name, value in data.items()}
        found.add("", objective(model, piece, ""), objective.counts(piece))
    return found.read()


@torch.no_grad()
@pytest.mark.parametrize("tie_embeddings", [True, False])
def test_classes_and_text_are_two_means_over_different_things(tie_embeddings: bool) -> None:
    model, data, objective = gpt(C, tie_embeddings=tie_embeddings), batch(B), FinetuningConfig().build()
    task = text = right = 0.0
    for row in range(B):
        state, own = by_hand(model, data["ids"][row], int(data["lengths"][row]))
        scores = model.task_head(state)
        task -= float(scores.log_softmax(-1)[data["label"][row]])
        right += int(scores.argmax()) == int(data["label"][row])
        text += own
    terms, counts = objective(model, data, ""), objective.counts(data)
    assert float(terms.sums["task"]) == pytest.approx(task, rel=1e-5)
    assert float(terms.sums["text"]) == pytest.approx(text, rel=1e-5)
    assert float(terms.metrics["accuracy"]) == right
    tokens = float(data["lengths"].sum() - B)
    assert {name: float(value) for name, value in counts.items()} == {"task": B, "text": tokens, "accuracy": B}
    assert objective.weights == {"text": 0.5}
    whole = means(objective, model, data, [slice(0, B)])
    assert whole["loss"] == pytest.approx(task / B + 0.5 * text / tokens, rel=1e-5)
    parts = means(objective, model, data, [slice(0, 1), slice(1, 4), slice(4, 5)])
    assert parts == pytest.approx(whole, rel=1e-5)


@torch.no_grad()
def test_choices_are_scored_one_by_one() -> None:
    model, data = gpt(1), batch(B, N, classes=N)
    objective = FinetuningConfig(choices=N).build()
    task = text = 0.0
    for row in range(B):
        found = [by_hand(model, data["ids"][row, choice], int(data["lengths"][row, choice])) for choice in range(N)]
        scores = [float(model.task_head(state)) for state, _ in found]
        task -= math.log(math.exp(scores[int(data["label"][row])]) / sum(map(math.exp, scores)))
        text += sum(own for _, own in found)
    terms = objective(model, data, "")
    assert float(terms.sums["task"]) == pytest.approx(task, rel=1e-5)
    assert float(terms.sums["text"]) == pytest.approx(text, rel=1e-5)
    assert float(objective.counts(data)["text"]) == float(data["lengths"].sum() - B * N)
    assert terms.metrics.keys() == {"accuracy"}


@torch.no_grad()
def test_two_orders_are_one_example_and_none_comes_first() -> None:
    model, data, objective = gpt(C), batch(B, 2), FinetuningConfig().build()
    hidden = model.hidden(data["ids"].flatten(0, 1)).view(B, 2, T, -1)
    scores = model.class_logits(hidden, data["lengths"])
    for row in range(B):
        states = [by_hand(model, data["ids"][row, order], int(data["lengths"][row, order]))[0] for order in (0, 1)]
        torch.testing.assert_close(scores[row], model.task_head(states[0] + states[1]))
    swapped = {**data, "ids": data["ids"].flip(1), "lengths": data["lengths"].flip(1)}
    torch.testing.assert_close(model.class_logits(hidden.flip(1), swapped["lengths"]), scores)
    for name, value in objective(model, data, "").sums.items():
        torch.testing.assert_close(objective(model, swapped, "").sums[name], value)


@torch.no_grad()
def test_what_fills_up_changes_nothing() -> None:
    model, data, objective = gpt(C), batch(B), FinetuningConfig().build()
    other = {**data, "ids": data["ids"].masked_fill(torch.arange(T) >= data["lengths"][:, None], 3)}
    for name, value in objective(model, data, "").sums.items():
        torch.testing.assert_close(objective(model, other, "").sums[name], value)


def test_a_gradient_reaches_every_parameter_and_the_weight_counts() -> None:
    model, data = gpt(C, tie_embeddings=False), batch(B)
    terms = FinetuningConfig(text_weight=2.0).build()(model, data, "")
    (terms.sums["task"] + 2.0 * terms.sums["text"]).backward()
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in model.parameters())
    assert FinetuningConfig(text_weight=2.0).build().weights == {"text": 2.0}


@torch.no_grad()
def test_two_classes_have_an_f1_and_unlabelled_texts_are_still_read() -> None:
    model, data, objective = gpt(2), batch(B, classes=2), FinetuningConfig().build()
    assert means(objective, model, data, [slice(0, B)]).keys() == {"loss", "task", "text", "accuracy", "f1", "matthews"}
    data["label"][0] = UNLABELLED
    counts = objective.counts(data)
    assert (float(counts["task"]), float(counts["text"])) == (B - 1, float(data["lengths"].sum() - B))


@pytest.mark.parametrize("settings", [{"text_weight": -1.0}, {"text_weight": math.nan}, {"text_weight": math.inf}, {"choices": -1}])
def test_settings_that_cannot_work(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"--objective\.\w+[- ]\w+ .*not"):
        FinetuningConfig(**settings).build()


def test_what_does_not_fit_is_one_sentence() -> None:
    data = batch(B)
    with pytest.raises(ConfigError, match=r"the labels are numbers.*--data\.number"):
        FinetuningConfig().build().counts({**data, "label": torch.zeros(B)})
    with pytest.raises(ConfigError, match=r"--model\.classes must be 1 to score choices, not 4"):
        FinetuningConfig(choices=N).build()(gpt(C), batch(B, N), "")
