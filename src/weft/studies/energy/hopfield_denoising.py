"""How much damage a Hopfield network repairs: random patterns with units turned over, or with half of them unknown.

Far below its capacity, a pattern is a deep minimum that draws in states from far away; near capacity the same damage leads elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from weft.core import random
from weft.core.config import Config
from weft.core.errors import ConfigError
from weft.models.energy.hopfield import Hopfield, HopfieldConfig
from weft.report.curves import Curve
from weft.report.svg import chart
from weft.studies.base import Finding

DAMAGE = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5)
LOADS = (0.02, 0.05, 0.1, 0.13)


@dataclass(frozen=True, kw_only=True)
class Settings(Config):
    units: int = 500
    """Size N of the network."""
    seed: int = 0
    """Of the patterns and the damage."""


def stored(patterns: int, settings: Settings) -> tuple[Hopfield, Tensor, Tensor]:
    """A network, the random patterns (P, N) that Hebb's rule stored in it, and a key for each."""
    key = random.keys(random.seed_of(settings.seed, "patterns", patterns), torch.arange(patterns))
    x = 2.0 * (random.uniform(key, settings.units) < 0.5) - 1
    network = HopfieldConfig(features=settings.units).build()
    network.store(x)
    return network, x, random.fold(key, "damage")


def repaired(patterns: int, flipped: float, settings: Settings) -> tuple[float, float]:
    """Share of the units that are right, and of the patterns wholly so, after recall with a share of the units turned over."""
    network, x, key = stored(patterns, settings)
    found = network.recall(torch.where(random.uniform(key, settings.units) < flipped, -x, x), sweeps=50) == x
    return float(found.float().mean()), float(found.all(1).float().mean())


def completed(patterns: int, settings: Settings) -> float:
    """Share of the unknown half of the units that is right after recall, where the other half is held."""
    network, x, key = stored(patterns, settings)
    known = (torch.arange(settings.units) < settings.units // 2).expand_as(x)
    found = 2 * network.inpaint((x + 1) / 2, known, key, sweeps=50) - 1
    return float((found == x)[:, settings.units // 2 :].float().mean())


def study(settings: Settings) -> Finding:
    """What is recalled, by damage and load."""
    if settings.units < 50:
        raise ConfigError(f"--units must be at least 50, not {settings.units}")
    found = {load: [(flipped, repaired(round(load * settings.units), flipped, settings)) for flipped in DAMAGE] for load in LOADS}
    curves = [
        Curve(f"{load} N patterns", [(100 * f, 100 * bits) for f, (bits, _) in points], f"c{i}")
        for i, (load, points) in enumerate(found.items())
    ]
    curves.append(Curve("not repaired", [(100 * f, 100 * (1 - f)) for f in DAMAGE], "c6"))
    figure = chart("units that are right after recall (%), by units turned over (%)", curves, tall=True, across="% turned over")
    halves = {load: completed(round(load * settings.units), settings) for load in LOADS}
    rows = tuple(
        (f"{load} N", *(f"{100 * share:.1f} %" for share in (*dict(found[load])[0.2], *dict(found[load])[0.3], halves[load])))
        for load in LOADS
    )
    head = (
        "patterns",
        "20 % turned over: units right",
        "whole patterns",
        "30 %: units right",
        "whole patterns",
        "half unknown: units right",
    )
    units, whole = dict(found[0.05])[0.2]
    claim = f"A network of {settings.units} units that stores {round(0.05 * settings.units)} random patterns recalls {100 * units:.1f} %"
    claim += f" of the units, and {100 * whole:.1f} % of the patterns without an error, where a fifth of the units is turned over; given"
    claim += f" half of a pattern, {100 * halves[0.05]:.1f} % of the other half."
    return Finding("What a Hopfield network repairs", claim, head, rows, figure)
