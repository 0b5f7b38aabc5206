"""What the weight of the KL does (Higgins et al., 2017; Burgess et al., 2018, arXiv:1804.03599).

The same VAE is trained on scikit-learn's digits with other weights β. The larger β, the fewer nats the code may hold, the fewer of
its dimensions are used at all, and the worse is the reconstruction. At β = 1 it is the VAE itself, whose sum of both is the bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from weft.core.config import Config
from weft.core.errors import ConfigError
from weft.report.curves import Curve
from weft.report.svg import chart
from weft.studies.base import Finding
from weft.studies.generative.autoencoders import nats_of_dimensions, trained

USED = 0.05
"""Nats from which a dimension counts as used."""


@dataclass(frozen=True, kw_only=True)
class Settings(Config):
    betas: tuple[float, ...] = (0.1, 0.25, 0.5, 1.0, 1.5, 2.0)
    """Weights of the KL, in ascending order."""
    steps: int = 1000
    """Updates of each run."""
    seed: int = 1
    """Of the weights, the order and the noise."""


@dataclass(frozen=True)
class Point:
    beta: float
    kl: float
    reconstruction: float
    used: int
    """Dimensions of the code that hold anything."""


def measure(settings: Settings, beta: float) -> Point:
    changes = {"objective.beta": beta, "train.steps": settings.steps, "train.eval_every": settings.steps, "train.seed": settings.seed}
    made = trained("vae/digits", changes)
    assert made.validation is not None
    found = made.validation.latest
    return Point(beta, found["kl"], found["reconstruction"], int((nats_of_dimensions(made) > USED).sum()))


def study(settings: Settings) -> Finding:
    """Train with every weight and compare both parts of the bound."""
    if len(settings.betas) < 2 or list(settings.betas) != sorted(set(settings.betas)) or settings.betas[0] < 0:
        raise ConfigError(f"--betas must be two or more numbers from 0 up, in ascending order, not {settings.betas}")
    return describe(settings, [measure(settings, beta) for beta in settings.betas])


def describe(settings: Settings, found: list[Point]) -> Finding:
    first, last = found[0], found[-1]
    falls = all(b.kl < a.kl for a, b in pairwise(found))
    rises = all(b.reconstruction > a.reconstruction for a, b in pairwise(found))
    course = "at every step" if falls and rises else "on the whole, but not at every step"
    claim = (
        f"From β = {first.beta:g} to {last.beta:g} the KL falls from {first.kl:.2f} to {last.kl:.2f} nats and the reconstruction's loss "
        f"rises from {first.reconstruction:.2f} to {last.reconstruction:.2f}, {course}; "
        f"{first.used} and {last.used} dimensions of 16 are used."
    )
    curves = [
        Curve("KL, nats", [(point.beta, point.kl) for point in found], "c0"),
        Curve("reconstruction, nats", [(point.beta, point.reconstruction) for point in found], "c1"),
    ]
    figure = chart("both parts of the bound, by β", curves, tall=True, across="β")
    rows = tuple((f"{p.beta:g}", f"{p.kl:.3f}", f"{p.reconstruction:.3f}", f"{p.kl + p.reconstruction:.3f}", str(p.used)) for p in found)
    return Finding("β-VAE", claim, ("β", "KL", "reconstruction", "sum", "dimensions used"), rows, figure)
