"""How many random patterns a Hopfield network holds: errors of recall against the load, patterns per unit.

Each network starts at a stored pattern and descends. With Hebb's rule, errors stay few up to about 0.138 patterns a unit and then
take over at once (Amit, Gutfreund & Sompolinsky, 1985). Recall without any error holds up to about N / (2 ln N) patterns of N units
(McEliece et al., 1987): a share of the units that falls, slowly, as networks grow. Neither is a limit of memories as such: where
the energy is steeper than a square, as in x <- sign(Ξᵀ softmax(β Ξ x)) (Ramsauer et al., 2020, arXiv:2008.02217; Demircigil et al.,
2017), the number of patterns may grow exponentially with N.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from weft.core import random
from weft.core.config import Config
from weft.core.errors import ConfigError
from weft.models.energy.hopfield import HopfieldConfig
from weft.report.curves import Curve
from weft.report.svg import chart
from weft.studies.base import Finding

CRITICAL = 0.138
"""Patterns a unit beyond which recall breaks down in a large network."""
LOADS = (0.02, 0.05, 0.08, 0.1, 0.11, 0.12, 0.13, 0.138, 0.145, 0.155, 0.17, 0.2)
SHARES = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
"""Patterns as shares of N / (2 ln N)."""
BETA = 8.0


@dataclass(frozen=True, kw_only=True)
class Settings(Config):
    units: tuple[int, ...] = (100, 300, 1000)
    """Sizes N of the networks."""
    stored: int = 150
    """Least number of patterns that are asked for at each load; small networks are drawn several times."""
    seed: int = 0
    """Of the patterns."""


def drawn(patterns: int, units: int, seed: int) -> Tensor:
    """Random patterns (P, N) of -1 and 1."""
    key = random.keys(random.seed_of(seed, "patterns", patterns, units), torch.arange(patterns))
    return 2.0 * (random.uniform(key, units) < 0.5) - 1


def recalled(patterns: Tensor) -> Tensor:
    """Where the descent from each of patterns (P, N) ends in a network that stores them all."""
    network = HopfieldConfig(features=patterns.size(1)).build()
    network.store(patterns)
    return network.recall(patterns, sweeps=50)


def modern(patterns: Tensor, x: Tensor) -> Tensor:
    """One step of a network with a steeper energy from x (B, N)."""
    return ((BETA / math.sqrt(x.size(1)) * x @ patterns.mT).softmax(1) @ patterns).sign()


def errors(units: int, patterns: int, settings: Settings) -> tuple[float, float]:
    """Share of wrong units, and of patterns with any wrong unit, over enough draws of the patterns."""
    wrong = []
    for trial in range(max(1, round(settings.stored / patterns))):
        stored = drawn(patterns, units, random.seed_of(settings.seed, trial))
        wrong.append((recalled(stored) != stored).float().mean(1))
    found = torch.cat(wrong)
    return float(found.mean()), float((found > 0).float().mean())


def bound(units: int) -> float:
    """N / (2 ln N)."""
    return units / (2 * math.log(units))


def study(settings: Settings) -> Finding:
    """Errors by load, and patterns recalled whole by their number in units of N / (2 ln N)."""
    if not settings.units or min(settings.units) < 10 or settings.stored < 1:
        raise ConfigError(f"--units are numbers of at least 10 and --stored at least 1, not {settings.units} and {settings.stored}")
    by_load = {n: [(load, errors(n, max(1, round(load * n)), settings)[0]) for load in LOADS] for n in settings.units}
    whole = {n: [(share, 1 - errors(n, max(1, round(share * bound(n))), settings)[1]) for share in SHARES] for n in settings.units}
    styles = {n: f"c{i % 8}" for i, n in enumerate(settings.units)}
    curves = [Curve(f"{n} units", points, styles[n]) for n, points in by_load.items()]
    exact = [Curve(f"{n} units", points, styles[n]) for n, points in whole.items()]
    figure = chart("share of wrong units after recall, by patterns per unit", curves, tall=True, across="patterns per unit")
    figure += chart("share of patterns recalled whole, by patterns / (N / (2 ln N))", exact, tall=True, across="N / (2 ln N)")
    head = (
        "units N",
        "wrong at 0.1 N",
        f"wrong at {CRITICAL} N",
        "wrong at 0.17 N",
        "N / (2 ln N)",
        "of these whole",
        "softmax, 10 N patterns wrong",
    )
    rows = tuple(row(n, dict(by_load[n]), dict(whole[n]), settings.seed) for n in settings.units)
    return Finding("How many patterns a Hopfield network holds", conclusion(by_load, whole), head, rows, figure)


def row(units: int, by_load: dict[float, float], whole: dict[float, float], seed: int) -> tuple[str, ...]:
    many = drawn(10 * units, units, seed)
    few = many[:100]
    wrong = float((modern(many, few) != few).float().mean())
    at = (f"{100 * by_load[load]:.2f} %" for load in (0.1, CRITICAL, 0.17))
    return (str(units), *at, f"{bound(units):.1f}", f"{100 * whole[1.0]:.1f} %", f"{100 * wrong:.2f} %")


def conclusion(by_load: dict[int, list[tuple[float, float]]], whole: dict[int, list[tuple[float, float]]]) -> str:
    """What the numbers say, in words."""
    largest = max(by_load)
    at = dict(by_load[largest])
    text = f"With {largest:,} units, {100 * at[0.1]:.2f} % of the units are wrong at 0.1 patterns a unit, {100 * at[CRITICAL]:.1f} % at"
    text += f" {CRITICAL} and {100 * at[0.2]:.1f} % at 0.2: recall breaks down near {CRITICAL}, the more sharply the larger the network."
    text += f" At N / (2 ln N) = {bound(largest):.0f} patterns, {100 * dict(whole[largest])[1.0]:.1f} % of them come back whole."
    return text
