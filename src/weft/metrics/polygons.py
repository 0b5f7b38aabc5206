"""Areas of polygons, and whether their sides cross."""

from __future__ import annotations

import torch
from torch import Tensor


def area(polygon: Tensor) -> Tensor:
    """Corners (N, 2), one after the other -> the area inside, by the shoelace formula; 0 for fewer than three."""
    x, y = polygon.double().unbind(-1)
    return (x * y.roll(-1, 0) - y * x.roll(-1, 0)).sum().abs() / 2


def is_simple(polygon: Tensor) -> bool:
    """Whether there are at least three corners (N, 2) and no two sides cross."""
    n = len(polygon)
    if n < 3:
        return False
    start = polygon.double()
    end = start.roll(-1, 0)

    def side(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        """On which side of a line from a to b is c; all (N, N, 2)."""
        u, v = b - a, c - a
        return u[..., 0] * v[..., 1] - u[..., 1] * v[..., 0]

    a, b, c, d = start[:, None], end[:, None], start[None], end[None]
    crosses = (side(a, b, c) * side(a, b, d) < 0) & (side(c, d, a) * side(c, d, b) < 0)
    number = torch.arange(n)
    apart = (number[:, None] - number[None]).remainder(n)
    return not bool((crosses & (apart > 1) & (apart < n - 1)).any())
