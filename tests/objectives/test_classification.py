"""Cross-entropy against its definition, and unlabelled examples that count for nothing."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from weft.data.base import UNLABELLED, Batch
from weft.objectives.classification import Classification, ClassificationConfig


class Given(nn.Module):
    """A classifier whose logits are its input."""

    def classify(self, x: Tensor) -> Tensor:
        return x


def means(logits: Tensor, label: Tensor) -> dict[str, float]:
    """The objective's loss and accuracy, averaged as the trainer does."""
    objective = ClassificationConfig().build()
    batch = {"image": logits, "label": label}
    terms, counts = objective(Given(), batch, ""), objective.counts(batch)
    return {name: float(value / counts[name]) for name, value in {**terms.sums, **terms.metrics}.items()}


def cross_entropy(p: Tensor, q: Tensor) -> float:
    """H(p, q) by the objective: every class appears as often as p says."""
    label = torch.arange(len(p)).repeat_interleave((p * 1000).round().long())
    return means(q.log().expand(len(label), -1), label)["loss"]


def test_it_is_minus_the_log_of_the_softmax() -> None:
    torch.manual_seed(0)
    logits, label = torch.randn(50, 7), torch.randint(7, (50,))
    by_hand = -(logits.gather(1, label[:, None])[:, 0] - logits.exp().sum(1).log()).mean()
    assert means(logits, label)["loss"] == pytest.approx(float(by_hand), abs=1e-6)
    assert means(logits, label)["accuracy"] == pytest.approx(float((logits.argmax(1) == label).float().mean()))


def test_it_is_least_where_all_probability_is_on_the_class() -> None:
    label = torch.tensor([2])
    assert means(torch.tensor([[0.0, 0.0, 200.0]]), label)["loss"] == 0.0
    logits = torch.zeros(1, 3, requires_grad=True)
    optimizer = torch.optim.SGD([logits], lr=1.0)
    for _ in range(300):
        optimizer.zero_grad()
        ClassificationConfig().build()(Given(), {"image": logits, "label": label}, "").sums["loss"].backward()
        optimizer.step()
    torch.testing.assert_close(logits.softmax(1), torch.tensor([[0.0, 0.0, 1.0]]), atol=0.01, rtol=0)


def test_no_other_distribution_codes_p_as_well_as_p() -> None:
    torch.manual_seed(0)
    for _ in range(20):
        p = torch.randint(1, 200, (5,)).float()
        p = (p / p.sum() * 1000).round() / 1000
        p[0] += 1 - p.sum()
        entropy = cross_entropy(p, p)
        assert entropy == pytest.approx(float(-(p * p.log()).sum()), abs=1e-5)
        assert cross_entropy(p, torch.rand(5).softmax(0)) >= entropy


def test_unlabelled_examples_are_in_no_sum_and_no_count() -> None:
    torch.manual_seed(0)
    logits, label = torch.randn(6, 3), torch.tensor([0, 1, 2, 0, 1, 2])
    mixed = torch.cat((logits, torch.randn(9, 3)))
    unknown = torch.full((9,), UNLABELLED)
    assert means(mixed, torch.cat((label, unknown))) == pytest.approx(means(logits, label))


def test_a_batch_without_labels_changes_nothing() -> None:
    objective = ClassificationConfig(input="x").build()
    logits = torch.randn(4, 3, requires_grad=True)
    batch: Batch = {"x": logits, "label": torch.full((4,), UNLABELLED)}
    terms, counts = objective(Given(), batch, ""), objective.counts(batch)
    assert isinstance(objective, Classification)
    assert counts == {"loss": torch.tensor(0.0), "accuracy": torch.tensor(0.0)}
    terms.sums["loss"].backward()
    assert logits.grad is not None
    assert not logits.grad.any()
    assert terms.metrics["accuracy"] == 0
