"""Spans: the loss by hand, the best pairs against trying all of them, and learning in ragged micro-batches."""

from __future__ import annotations

import dataclasses
import math

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from torch import Tensor

from weft.core.errors import ConfigError
from weft.data.base import Batch
from weft.models.language.bert import BERT, TINY
from weft.objectives.language.extractive_qa import ExtractiveQAConfig, best_spans
from weft.training.means import Means

T, INF = 12, math.inf


def batch() -> Batch:
    """Sequences of 12, 9 and 7 tokens whose windows begin at 4, 5 and 3; the second has no answer."""
    torch.manual_seed(0)
    lengths, begin, place = torch.tensor([12, 9, 7]), torch.tensor([4, 5, 3]), torch.arange(T)
    segments = ((place >= begin[:, None]) & (place < lengths[:, None])).long()
    first, last = torch.tensor([5, 0, 3]), torch.tensor([7, 0, 3])
    return {"ids": torch.randint(5, 50, (3, T)), "segments": segments, "lengths": lengths, "first": first, "last": last}


def bert() -> BERT:
    torch.manual_seed(0)
    settings = {"vocabulary": 50, "context": T, "task": "answer", "dropout": 0.0, "attention_dropout": 0.0, "init_std": 0.3}
    return dataclasses.replace(TINY, **settings).build().eval()  # type: ignore[arg-type]


def brute_force(first: Tensor, last: Tensor, inside: Tensor, longest: int) -> list[tuple[float, int, int]]:
    """Every pair that may be an answer, the best first."""
    pairs = [(i, j) for i in range(len(first)) for j in range(i, min(i + longest, len(first))) if inside[i] and inside[j]]
    return sorted(((float(first[i] + last[j]), i, j) for i, j in pairs), key=lambda found: -found[0])


@given(st.integers(0, 10_000), st.integers(1, 9), st.integers(1, 12), st.integers(1, 12), st.data())
def test_the_best_spans_are_those_of_trying_all(seed: int, size: int, longest: int, number: int, data: st.DataObject) -> None:
    begin = data.draw(st.integers(0, size - 1))
    end = data.draw(st.integers(begin + 1, size))
    torch.manual_seed(seed)
    first, last = torch.randn(2, size), torch.randn(2, size)
    inside = ((torch.arange(size) >= begin) & (torch.arange(size) < end)).expand(2, -1)
    scores, start, stop = best_spans(first, last, inside, longest, number)
    assert scores.shape == start.shape == stop.shape == (2, number)
    for row in range(2):
        expected = brute_force(first[row], last[row], inside[row], longest)[:number]
        found = list(zip(scores[row].tolist(), start[row].tolist(), stop[row].tolist(), strict=True))
        assert found[: len(expected)] == expected
        assert all(score == -INF for score, _, _ in found[len(expected) :])
        assert all(0 <= i < size and 0 <= j < size for _, i, j in found)


def test_the_loss_and_the_best_answer_by_hand() -> None:
    data, model, objective = batch(), bert(), ExtractiveQAConfig(max_answer_length=3).build()
    terms = objective(model, data, "")
    with torch.no_grad():
        scores, first, last, null = objective.decode(model, data, number=2)
    loss = 0.0
    right = 0
    for row in range(3):
        length, begin = int(data["lengths"][row]), int(data["segments"][row].argmax())
        states = model.hidden(data["ids"][row : row + 1, :length], data["segments"][row : row + 1, :length])[0]
        start, end = (states @ model.head.weight[way] + model.head.bias[way] for way in (0, 1))  # one vector for each end
        truth = int(data["first"][row]), int(data["last"][row])
        start, end = start.log_softmax(0).detach(), end.log_softmax(0).detach()
        loss -= float(start[truth[0]] + end[truth[1]]) / 2
        right += (int(start.argmax()), int(end.argmax())) == truth and truth[0] > 0
        inside = (torch.arange(length) >= begin) & (torch.arange(length) < length - 1)
        for place, (score, i, j) in enumerate(brute_force(start, end, inside, 3)[:2]):
            assert float(scores[row, place]) == pytest.approx(score, abs=1e-5)
            assert (int(first[row, place]), int(last[row, place])) == (i, j)
        assert float(null[row]) == pytest.approx(float(start[0] + end[0]), abs=1e-5)
    assert terms.sums["loss"].item() == pytest.approx(loss, rel=1e-5)
    assert int(terms.metrics["accuracy"]) == right


def test_means_are_over_windows_and_over_those_with_an_answer() -> None:
    data, model, objective = batch(), bert(), ExtractiveQAConfig().build()
    counts = objective.counts(data)
    assert {name: float(value) for name, value in counts.items()} == {"loss": 3.0, "accuracy": 2.0}
    means = Means(objective)
    for row in range(3):
        part = {name: value[row : row + 1] for name, value in data.items()}
        means.add("", objective(model, part, ""), objective.counts(part))
    whole = objective(model, data, "")
    assert means.read()["loss"] == pytest.approx(whole.sums["loss"].item() / 3, rel=1e-5)
    assert means.read()["accuracy"] == float(whole.metrics["accuracy"]) / 2


def test_padding_changes_nothing_and_gets_no_gradient() -> None:
    data, model, objective = batch(), bert(), ExtractiveQAConfig().build()
    other = {**data, "ids": torch.where(torch.arange(T) < data["lengths"][:, None], data["ids"], 7)}
    assert torch.equal(objective(model, data, "").sums["loss"], objective(model, other, "").sums["loss"])
    objective(model, data, "").sums["loss"].backward()
    assert all(parameter.grad is None or torch.isfinite(parameter.grad).all() for parameter in model.parameters())


def test_a_longest_answer_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"--objective\.max_answer_length must be at least 1, not 0"):
        ExtractiveQAConfig(max_answer_length=0).build()
