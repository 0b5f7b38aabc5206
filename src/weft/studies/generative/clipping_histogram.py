"""Where clipping puts a critic's weights, and where a gradient penalty does (figure 1b of Gulrajani et al., 2017, arXiv:1704.00028).

Clipped, most weights end at one of the two bounds, and what the critic teaches depends on the bound; penalised, they spread smoothly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from weft.core.config import Config
from weft.recipes.base import recipe
from weft.report.curves import Curve
from weft.report.svg import chart
from weft.studies.base import Finding
from weft.studies.generative.adversarial import measured, train

BINS = 41


@dataclass(frozen=True, kw_only=True)
class Settings(Config):
    steps: int = 300
    """Updates of each generator."""
    bounds: tuple[float, ...] = (0.01, 0.1, 0.5)
    """Bounds c of clipping."""
    seed: int = 1
    """Of the weights, the order and the noise."""


@dataclass(frozen=True)
class Outcome:
    weights: Tensor
    at_bound: float
    """Share of weights within a hundredth of the largest."""
    modes: float
    good: float


def outcome(name: str, changes: dict[str, Any]) -> Outcome:
    trainer, data = train(recipe(name), changes)
    matrices = [p.detach().flatten() for p in trainer.model.get_submodule("discriminator").parameters() if p.ndim > 1]
    weights = torch.cat(matrices).cpu()
    numbers = measured(trainer, data)
    largest = weights.abs().max()
    return Outcome(weights, float((weights.abs() >= 0.99 * largest).float().mean()), numbers["modes"], numbers["good"])


def histogram(weights: Tensor) -> list[tuple[float, float]]:
    """Share of weights (%) by their size as a part of the largest, from -1 to 1."""
    largest = float(weights.abs().max())
    counts = torch.histc(weights / largest, BINS, -1, 1)
    return [(2 * i / (BINS - 1) - 1, 100 * float(count) / len(weights)) for i, count in enumerate(counts)]


def study(settings: Settings) -> Finding:
    """Train a critic with each bound and with a penalty, on the ring, and look at its weights."""
    fixed = {"train.steps": settings.steps, "train.seed": settings.seed}
    found = {f"clipped to {c:g}": outcome("wgan/ring", fixed | {"objective.weight_clip": c}) for c in settings.bounds}
    found["gradient penalty"] = outcome("wgan_gp/ring", fixed)
    curves = [Curve(name, histogram(one.weights), f"c{i}") for i, (name, one) in enumerate(found.items())]
    figure = chart("share of the critic's weights (%), by size as a part of the largest", curves, tall=True, across="weight / largest")
    rows = tuple((name, f"{one.at_bound:.1%}", f"{one.modes:.0f} of 8", f"{one.good:.1%}") for name, one in found.items())
    most = max(one.at_bound for name, one in found.items() if name != "gradient penalty")
    claim = f"After {settings.steps} updates up to {most:.0%} of a clipped critic's weights lie at the bound; with a penalty"
    claim += f" {found['gradient penalty'].at_bound:.1%} lie at the largest. The bound decides what is learned: see the modes."
    return Finding("Clipped weights", claim, ("critic", "weights at the largest", "modes", "good samples"), rows, figure)
