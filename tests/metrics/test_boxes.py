"""Overlaps of boxes, and average precision, by hand."""

from __future__ import annotations

import pytest
import torch

from weft.metrics.boxes import average_precision, found_at, overlaps

UNIT = torch.tensor([0.5, 0.5, 1.0, 1.0])


def test_overlaps() -> None:
    iou, giou = overlaps(UNIT, torch.tensor([[0.5, 0.5, 1.0, 1.0], [1.0, 0.5, 1.0, 1.0], [3.5, 0.5, 1.0, 1.0]]))
    assert iou.tolist() == pytest.approx([1, 1 / 3, 0])
    assert giou.tolist() == pytest.approx([1, 1 / 3, -2 / 4])


def test_each_object_is_found_once_by_the_most_confident() -> None:
    boxes = UNIT.expand(3, 4)
    counts = found_at(torch.tensor([0.3, 0.9, 0.6]), torch.tensor([0, 0, 1]), boxes, UNIT[None], torch.tensor([0]), 2)
    right, wrong = counts.nonzero()[counts.nonzero()[:, 0] == 0], counts[1].nonzero()
    assert right.tolist() == [[0, 0, 900]] and wrong.tolist() == [[0, 300], [1, 600]]


def test_average_precision() -> None:
    counts = torch.zeros(2, 1, 10)
    counts[0, 0, 9], counts[1, 0, 7], counts[0, 0, 5] = 1, 1, 1  # right, wrong, right, and one object not found
    assert float(average_precision(counts, torch.tensor([3.0]))) == pytest.approx(1 / 3 * 1 + 1 / 3 * 2 / 3)
    assert float(average_precision(counts / 7, torch.tensor([3.0]) / 7)) == pytest.approx(5 / 9)
