"""Reverse KL divergence from what a model draws to a known density: KL(q || p) = E_q [log q(x) - log p(x)], estimated from draws alone.

No data are needed, only the target up to its normaliser; here the normaliser is known too (summed once over a fine grid), so that
the loss is the divergence itself and 0 at best. The gradient passes through the draws.
Targets are densities in the plane after Rezende & Mohamed (2015, arXiv:1505.05770, table 1). Batch: only key (B,).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Literal

import torch
from torch import Tensor

from weft.core.errors import ConfigError
from weft.data.base import Batch
from weft.models.base import SamplesWithLogProb
from weft.objectives.base import Objective, ObjectiveConfig, Terms, count

Target = Literal["lobes", "wave", "fork"]


@dataclass(frozen=True, kw_only=True)
class ReverseKLConfig(ObjectiveConfig):
    unit = "nats per point"

    target: Target = "lobes"
    """lobes: two halves of a ring; wave: a band along a sine; fork: a band that splits in two."""
    features: int = 0
    """Numbers of an example, taken from the data; the targets have 2."""

    def build(self) -> ReverseKL:
        return ReverseKL(self)


class ReverseKL(Objective):
    needs = SamplesWithLogProb
    autocast = False

    def __init__(self, config: ReverseKLConfig):
        super().__init__()
        if config.features != 2:
            raise ConfigError(f"--objective.target {config.target} is a density in the plane, but examples have {config.features} numbers")
        self.energy = TARGETS[config.target]
        self.log_normaliser = normaliser(self.energy)

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        return {"loss": count(len(batch["key"]), like=batch["key"])}

    def forward(self, model: SamplesWithLogProb, batch: Batch, turn: str) -> Terms:
        x, log_prob = model.draw(batch["key"])  # (B, 2), (B,)
        return Terms({"loss": (log_prob + self.energy(x) + self.log_normaliser).sum()})


def lobes(x: Tensor) -> Tensor:
    """Minus log p of two opposite arcs of a circle, up to a constant: x (B, 2) -> (B,)."""
    ring: Tensor = ((torch.linalg.vector_norm(x, dim=1) - 2) / 0.4).square() / 2
    sides = torch.stack([-((x[:, 0] - 2) / 0.6).square() / 2, -((x[:, 0] + 2) / 0.6).square() / 2])
    return ring - sides.logsumexp(0)


def band(x: Tensor, middle: Tensor) -> Tensor:
    """Minus log p of a band around x_2 = middle, ending softly at x_1 = ±4."""
    return ((x[:, 1] - middle) / 0.4).square() / 2 + (x[:, 0] / 4).pow(4)


def wave(x: Tensor) -> Tensor:
    return band(x, (math.pi * x[:, 0] / 2).sin())


def fork(x: Tensor) -> Tensor:
    """The wave, and another that leaves it around x_1 = 1."""
    middle = (math.pi * x[:, 0] / 2).sin()
    away = 3 * (-((x[:, 0] - 1) / 0.6).square() / 2).exp()
    return -torch.stack([-band(x, middle), -band(x, middle - away)]).logsumexp(0)


TARGETS: dict[Target, Callable[[Tensor], Tensor]] = {"lobes": lobes, "wave": wave, "fork": fork}


@cache  # so that a model of its kind can also be followed without numbers
def normaliser(energy: Callable[[Tensor], Tensor], reach: float = 10.0, steps: int = 1000) -> float:
    """Log of the integral of exp(-energy) over the plane, all but nothing of which is beyond `reach`."""
    axis = torch.linspace(-reach, reach, steps, dtype=torch.float64)
    grid = torch.cartesian_prod(axis, axis)
    return float((-energy(grid)).logsumexp(0) + 2 * math.log(2 * reach / (steps - 1)))
