"""The confusion matrix is a count, and calibration follows its definition."""

from __future__ import annotations

import pytest
import torch

from weft.metrics.classification import bins_of_confidence, brier, confusion, expected_calibration_error, scores_of_classes


def drawn(examples: int = 500, classes: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    chance = torch.Generator().manual_seed(0)
    probabilities = (2 * torch.randn(examples, classes, generator=chance)).softmax(-1)
    return probabilities, torch.randint(classes, (examples,), generator=chance)


def test_confusion_is_a_direct_count() -> None:
    probabilities, label = drawn()
    predicted = probabilities.argmax(-1)
    table = confusion(predicted, label, 4)
    for true in range(4):
        for taken in range(4):
            assert table[true, taken] == sum(t == true and p == taken for t, p in zip(label.tolist(), predicted.tolist(), strict=True))


def test_precision_recall_and_f1_by_hand() -> None:
    first, second, third = scores_of_classes(torch.tensor([[3, 1, 0], [2, 4, 0], [0, 0, 0]]))
    assert (first.precision, first.recall, first.examples) == (3 / 5, 3 / 4, 4)
    assert first.f1 == pytest.approx(2 * 0.6 * 0.75 / 1.35)
    assert second.precision == 4 / 5
    assert (third.precision, third.recall, third.f1, third.examples) == (0.0, 0.0, 0.0, 0)


def test_calibration_error_is_its_definition() -> None:
    probabilities, label = drawn()
    confidence, predicted = probabilities.max(-1)
    expected = 0.0
    for low in range(10):
        inside = [i for i, c in enumerate(confidence.tolist()) if low / 10 < c <= (low + 1) / 10]
        if inside:
            right = sum(int(predicted[i] == label[i]) for i in inside) / len(inside)
            expected += len(inside) / len(label) * abs(right - sum(float(confidence[i]) for i in inside) / len(inside))
    bins = bins_of_confidence(probabilities, label)
    assert sum(one.examples for one in bins) == len(label)
    assert expected_calibration_error(bins) == pytest.approx(expected, abs=1e-6)


def test_brier_by_hand() -> None:
    assert brier(torch.tensor([[0.7, 0.2, 0.1]]), torch.tensor([0])) == pytest.approx(0.3**2 + 0.2**2 + 0.1**2)
    assert brier(torch.tensor([[0.0, 1.0], [1.0, 0.0]]), torch.tensor([0, 0])) == pytest.approx(1.0)
