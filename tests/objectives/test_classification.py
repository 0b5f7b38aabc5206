"""Cross-entropy against its definition, scores against scikit-learn, and unlabelled examples that count for nothing."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from weft.core.errors import ConfigError
from weft.data.base import UNLABELLED, Batch
from weft.objectives.classification import Classification, ClassificationConfig, outcomes
from weft.training.means import Means


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
    objective = ClassificationConfig(inputs=("x",)).build()
    logits = torch.randn(4, 3, requires_grad=True)
    batch: Batch = {"x": logits, "label": torch.full((4,), UNLABELLED)}
    terms, counts = objective(Given(), batch, ""), objective.counts(batch)
    assert isinstance(objective, Classification)
    assert counts == {"loss": torch.tensor(0.0), "accuracy": torch.tensor(0.0)}
    terms.sums["loss"].backward()
    assert logits.grad is not None
    assert not logits.grad.any()
    assert terms.metrics["accuracy"] == 0


def summary(logits: Tensor, label: Tensor, size: int, smoothing: float = 0.0) -> dict[str, float]:
    """What validation reports, in batches of a size."""
    objective = ClassificationConfig(label_smoothing=smoothing).build()
    found = Means(objective)
    for first in range(0, len(label), size):
        batch = {"image": logits[first : first + size], "label": label[first : first + size]}
        found.add("", objective(Given(), batch, ""), objective.counts(batch))
    return found.read()


@pytest.mark.parametrize("size", [1, 7, 200])
def test_scores_of_two_classes_are_those_of_scikit_learn(size: int) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    torch.manual_seed(0)
    label = (torch.rand(200) < 0.1).long()
    logits = torch.randn(200, 2)
    logits[:, 1] += 3 * label - 1
    guess, unlabelled = logits.argmax(1), torch.full((20,), UNLABELLED)
    found = summary(torch.cat((logits, torch.randn(20, 2))), torch.cat((label, unlabelled)), size)
    assert found["accuracy"] == pytest.approx(metrics.accuracy_score(label, guess))
    assert found["f1"] == pytest.approx(metrics.f1_score(label, guess))
    assert found["matthews"] == pytest.approx(metrics.matthews_corrcoef(label, guess))


def test_many_outcomes_are_counted_exactly_in_bf16() -> None:
    label = torch.arange(2000) % 2
    with torch.autocast("cpu", dtype=torch.bfloat16):
        counts = outcomes(torch.eye(2)[label], label)
        assert torch.equal(counts, torch.tensor([[1000.0, 0.0], [0.0, 1000.0]]))
        assert torch.equal(outcomes(torch.eye(2)[label[:-1]], label[:-1]).diag(), torch.tensor([1000.0, 999.0]))


@pytest.mark.parametrize("told", [0, 1])
def test_one_class_for_everything_is_worth_nothing(told: int) -> None:
    logits = torch.eye(2)[told].expand(10, 2)
    found = summary(logits, torch.tensor([0] * 9 + [1]), 10)
    assert found["matthews"] == 0.0
    assert found["f1"] == pytest.approx([0.0, 2 / 11][told])


def test_more_classes_have_an_accuracy_only() -> None:
    assert summary(torch.randn(9, 3), torch.arange(9) % 3, 9).keys() == {"loss", "accuracy"}


@pytest.mark.parametrize("classes", [2, 5])
def test_smoothing_is_a_divergence_up_to_a_constant(classes: int) -> None:
    """sum over classes of q log(q / p), where q keeps 1 - e of the label and spreads e over all classes."""
    torch.manual_seed(0)
    share, logits, label = 0.1, torch.randn(30, classes), torch.arange(30) % classes
    q = (1 - share) * torch.eye(classes)[label] + share / classes
    divergence = (q * (q.log() - logits.log_softmax(1))).sum(1).mean()
    entropy = -(q * q.log()).sum(1).mean()
    found = summary(logits, label, 8, smoothing=share)
    assert found["loss"] == pytest.approx(float(divergence + entropy), abs=1e-5)
    assert found["accuracy"] == summary(logits, label, 8)["accuracy"]


def test_smoothing_is_least_at_the_smoothed_label() -> None:
    """Certainty costs more than 1 - e + e / C, which no other output beats."""
    best = torch.tensor([[0.95, 0.05]]).log()
    least = summary(best, torch.tensor([0]), 1, smoothing=0.1)["loss"]
    for certain in (0.5, 0.9, 0.99, 0.9999):
        assert summary(torch.tensor([[certain, 1 - certain]]).log(), torch.tensor([0]), 1, smoothing=0.1)["loss"] > least


def test_unlabelled_examples_are_not_smoothed_either() -> None:
    torch.manual_seed(0)
    logits, label = torch.randn(6, 3), torch.arange(6) % 3
    mixed = summary(torch.cat((logits, torch.randn(4, 3))), torch.cat((label, torch.full((4,), UNLABELLED))), 10, smoothing=0.2)
    assert mixed == pytest.approx(summary(logits, label, 10, smoothing=0.2))


@pytest.mark.parametrize("smoothing", [-0.1, 1.0, float("nan")])
def test_a_smoothing_that_cannot_be(smoothing: float) -> None:
    with pytest.raises(ConfigError, match=r"--objective\.label_smoothing must be at least 0 and below 1"):
        ClassificationConfig(label_smoothing=smoothing).build()


def test_inputs_and_labels_that_do_not_fit() -> None:
    batch = {"ids": torch.zeros(1, 2), "label": torch.tensor([0])}
    with pytest.raises(ConfigError, match=r"--objective\.inputs: a batch has no 'image'"):
        ClassificationConfig().build()(Given(), batch, "")
    with pytest.raises(ConfigError, match="labels are numbers"):
        ClassificationConfig().build().counts({"label": torch.tensor([0.5])})
