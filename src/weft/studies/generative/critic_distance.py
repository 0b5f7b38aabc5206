"""Two distributions without a point in common, moved apart: the Jensen-Shannon divergence does not notice, the Wasserstein distance does.

This is example 1 of Arjovsky et al. (2017, arXiv:1701.07875), here of uniform distributions on intervals of length 1. A critic f
with slopes of at most 1 gives E_p f - E_q f, at most the distance, and reaches it (Kantorovich & Rubinstein).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from weft.core.config import Config
from weft.metrics.divergences import dual_value, jensen_shannon, wasserstein_on_line
from weft.report.curves import Curve
from weft.report.svg import chart
from weft.studies.base import Finding


@dataclass(frozen=True, kw_only=True)
class Settings(Config):
    most: float = 4.0
    """Largest shift."""
    cells: int = 100
    """Cells of a unit of length."""


def pair(shift: float, settings: Settings) -> tuple[Tensor, Tensor, Tensor]:
    """Weights of both on a grid, and its places."""
    size = round((settings.most + 1) * settings.cells)
    places = (torch.arange(size, dtype=torch.float64) + 0.5) / settings.cells
    start = round(shift * settings.cells)
    p, q = torch.zeros(2, size, dtype=torch.float64)
    p[: settings.cells], q[start : start + settings.cells] = 1 / settings.cells, 1 / settings.cells
    return p, q, places


def study(settings: Settings) -> Finding:
    """Both distances over the shift."""
    found = []
    for number in range(41):
        shift = settings.most * number / 40
        p, q, places = pair(shift, settings)
        found.append((shift, float(jensen_shannon(p, q)), float(wasserstein_on_line(p, q, places)), float(dual_value(-places, p, q))))
    names = ("JSD", "W1", "critic f(x) = -x")
    curves = [Curve(name, [(row[0], row[i + 1]) for row in found], f"c{i}") for i, name in enumerate(names)]
    figure = chart("distance of two uniform distributions, by shift", curves, tall=True, across="shift")
    rows = tuple((f"{s:.2f}", f"{j:.4f}", f"{w:.4f}", f"{d:.4f}") for s, j, w, d in found[::5])
    claim = f"Once the two have no point in common (shift 1) the Jensen-Shannon divergence stays at log 2 = {math.log(2):.4f}, without"
    claim += " slope; the Wasserstein distance is the shift itself, and a critic with slope -1 says so."
    return Finding("What a critic measures", claim, ("shift", "JSD", "W1", "critic"), rows, figure)
