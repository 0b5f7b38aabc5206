"""What pointing costs and when it is right, counted by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from weft.data.base import IGNORE
from weft.objectives.pointing import Pointing, PointingConfig

SQUARE = torch.tensor([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
BATCH = {
    "points": SQUARE.expand(3, 4, 2),
    "lengths": torch.tensor([4, 4, 3]),
    "order": torch.tensor([[1, 2, 3, 4, 0], [1, 2, 3, 4, 0], [1, 2, 3, 0, IGNORE]]),
}


class Told(nn.Module):
    """Points at what it is told to, and is undecided when asked how sure it is."""

    def pointer_logits(self, points: Tensor, lengths: Tensor, order: Tensor) -> Tensor:
        return torch.zeros(*order.shape, points.size(1) + 1)

    def point(self, points: Tensor, lengths: Tensor) -> Tensor:
        return torch.tensor([[1, 2, 3, 4, 0], [1, 3, 2, 4, 0], [1, 2, 3, 0, 0]])


def test_sums_and_counts() -> None:
    objective: Any = Pointing(PointingConfig(hull_area=True))
    counts, terms, measured = objective.counts(BATCH), objective(Told(), BATCH, ""), objective.measure(Told(), BATCH)
    assert float(counts["loss"]) == 14
    assert float(counts["exact"]) == 3
    assert float(terms.sums["loss"]) == pytest.approx(14 * math.log(5), rel=1e-6)
    assert float(measured["exact"]) == 2
    assert float(measured["position_accuracy"]) == 12
    assert float(measured["simple"]) == 2  # the sides of the second cross
    assert float(measured["area"]) == 2


def test_numbers_have_no_area() -> None:
    assert set(Pointing(PointingConfig()).measure(Told(), BATCH)) == {"exact", "position_accuracy"}
