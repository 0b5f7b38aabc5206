"""One head copies a value: the longer a query along one key, the more of the output is that key's value.

With orthonormal keys and q = β k_j, the wanted key has the score β and every other 0. The weight on it is therefore
1 / (1 + (n − 1) exp(−β)), and what is missing from 1 goes in equal parts to the others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from weft.core.errors import ConfigError
from weft.report.curves import Curve
from weft.report.scales import short
from weft.report.svg import chart
from weft.studies.base import Finding
from weft.studies.language.attention import ROUNDING, Problem, attend, listed, normal, points, power

TOLERANCE = 1e-3
SHARES = (0.1, 0.2, 0.4, 1.0)
"""Rows of the table, as parts of the largest β."""
RANDOM = 1000
"""Random queries whose weights are looked at."""


@dataclass(frozen=True, kw_only=True)
class Settings(Problem):
    keys: tuple[int, ...] = (4, 32, 256)
    """Numbers of keys and values to compare."""
    width: int = 256
    """Dimensions of keys, values and queries."""


def copy(settings: Settings, keys: int, betas: Tensor) -> tuple[Tensor, Tensor]:
    """For every β, the weight on the wanted key and how far the output is from its value."""
    directions, values, _ = settings.bases(keys)
    weights, outputs = attend(directions, values, betas[:, None] * directions[0])
    return weights[:, 0], (outputs - values[0]).norm(dim=-1)


def expected(keys: int, betas: Tensor) -> Tensor:
    """The same distance as a formula, for orthonormal values."""
    missing = (keys - 1) / (betas.exp() + keys - 1)
    return missing * math.sqrt(keys / (keys - 1))


def needed(keys: int, tolerance: float) -> float:
    """The β from which the distance is smaller than a tolerance."""
    return math.log((keys - 1) * (math.sqrt(keys / (keys - 1)) / tolerance - 1))


def random_weights(settings: Settings) -> Tensor:
    """Weights (queries, keys) for long queries in no particular direction."""
    directions, values, generator = settings.bases(max(settings.keys))
    return attend(directions, values, settings.beta * normal(generator, RANDOM, settings.width))[0]


def study(settings: Settings) -> Finding:
    """Copy one of n values with ever longer queries."""
    if not settings.keys:
        raise ConfigError("keys: expected at least one number of keys, found none")
    betas = settings.betas(101)
    early = betas * min(1.0, 1.25 * needed(max(settings.keys), TOLERANCE) / settings.beta)  # later there is nothing to see
    weights, errors, rows = [], [], []
    chosen = settings.beta * torch.tensor(SHARES, dtype=torch.float64)
    for i, keys in enumerate(settings.keys):
        label, style = f"{keys:,} keys", f"c{i % 8}"
        weights.append(Curve(label, points(early, copy(settings, keys, early)[0]), style))
        errors.append(Curve(label, points(betas, power(copy(settings, keys, betas)[1])), style))
        columns = (chosen, *copy(settings, keys, chosen), expected(keys, chosen))
        rows += [(f"{keys:,}", f"{b:g}", f"{w:.6f}", short(e), short(f)) for b, w, e, f in zip(*(c.tolist() for c in columns))]
    figure = chart("weight on the wanted key, by β", weights, tall=True, across="β")
    figure += chart("log₁₀ of the distance ‖c − v_j‖, by β, down to the rounding of float64", errors, tall=True, across="β")
    head = ("keys", "β", "weight on the wanted key", "‖c − v_j‖", "formula")
    return Finding("Attention copies a value", conclusion(settings), head, tuple(rows), figure)


def conclusion(settings: Settings) -> str:
    """What the numbers say, in words."""
    end = torch.tensor([settings.beta], dtype=torch.float64)
    worst = max(float(copy(settings, keys, end)[1]) for keys in settings.keys)
    weights = random_weights(settings)
    off = float((weights.sum(-1) - 1).abs().max())
    text = f"Of {RANDOM:,} random queries over {max(settings.keys):,} keys, {int((weights < 0).sum())} weights are negative"
    text += f" and the sums are 1 within {off:.0e}: they are distributions."
    text += f" With the query β k_j the output at β = {settings.beta:g} is v_j within {max(worst, ROUNDING):.0e}."
    bounds = listed(f"β > {needed(keys, TOLERANCE):.1f} with {keys:,} keys" for keys in settings.keys)
    return f"{text} A distance below {TOLERANCE:g} takes {bounds}: the length grows with the logarithm of their number."
