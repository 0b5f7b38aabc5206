"""Areas by the shoelace formula, and polygons whose sides cross."""

from __future__ import annotations

import pytest
import torch

from weft.metrics.polygons import area, is_simple

SQUARE = torch.tensor([[0.0, 0.0], [2.0, 0.0], [2.0, 1.0], [0.0, 1.0]])


def test_areas() -> None:
    assert float(area(SQUARE)) == 2.0
    assert float(area(SQUARE.flip(0))) == 2.0
    assert float(area(SQUARE[:3])) == 1.0
    assert float(area(SQUARE[:2])) == 0.0


@pytest.mark.parametrize(("corners", "simple"), [([0, 1, 2, 3], True), ([0, 2, 1, 3], False), ([0, 1, 2], True), ([0, 1], False)])
def test_sides_that_cross(corners: list[int], simple: bool) -> None:
    assert is_simple(SQUARE[corners]) == simple
