"""How the gradient of a recurrent network's last state grows or vanishes with the steps since its first (Bengio et al., 1994; Pascanu et
al., 2013, arXiv:1211.5063).

A linear network h_t = W h_(t-1) has the Jacobian W^T of T steps, which grows or shrinks by the spectral radius ρ at each. A tanh network
has the product of diag(1 - h_t²) W in the order of the steps; diagonal and matrix do not commute, so it is not W^T times the slopes.
What grows is the gradient: the states of a tanh network stay between -1 and 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from weft.core.config import Config
from weft.core.errors import ConfigError
from weft.nn import init
from weft.nn.recurrent import RecurrentLayer
from weft.report.curves import Curve
from weft.report.svg import chart
from weft.studies.base import Finding


@dataclass(frozen=True, kw_only=True)
class Settings(Config):
    radii: tuple[float, ...] = (0.9, 1.0, 1.1)
    """Spectral radii ρ of the recurrent matrix."""
    steps: int = 100
    """Longest distance T."""
    width: int = 64
    """Of the state."""
    inputs: float = 0.3
    """Standard deviation of the inputs that a tanh network reads."""
    seed: int = 0
    """Of matrices and inputs."""


def layer(settings: Settings, radius: float) -> RecurrentLayer:
    """A tanh network that reads a number per unit, with a recurrent matrix of this spectral radius, in double precision."""
    torch.manual_seed(settings.seed)
    made = RecurrentLayer("rnn", settings.width, settings.width).double()
    init.spectral_radius(made.weight_hh, radius)
    with torch.no_grad():
        made.weight_ih.copy_(torch.eye(settings.width))
        made.bias_ih.zero_()
        made.bias_hh.zero_()
    return made


def states(made: RecurrentLayer, settings: Settings) -> Tensor:
    """States (T, H) of a tanh network that reads noise."""
    noise = torch.randn(1, settings.steps, settings.width, generator=torch.Generator().manual_seed(settings.seed), dtype=torch.double)
    with torch.no_grad():
        return made(settings.inputs * noise)[0][0]  # type: ignore[no-any-return]


@torch.no_grad()
def jacobians(weight: Tensor, slopes: Tensor) -> list[Tensor]:
    """∂h_T/∂h_0 for every T: the product of diag(slopes of step t) W, the last step first."""
    product, found = torch.eye(len(weight), dtype=weight.dtype), []
    for slope in slopes:
        product = slope[:, None] * (weight @ product)
        found.append(product)
    return found


def norms(settings: Settings, radius: float, linear: bool) -> list[float]:
    """The spectral norm of ∂h_T/∂h_0 for T = 1, 2, …."""
    made = layer(settings, radius)
    reached = states(made, settings)
    slopes = torch.ones_like(reached) if linear else 1 - reached.square()
    return [float(torch.linalg.matrix_norm(each, 2)) for each in jacobians(made.weight_hh, slopes)]


def rate(found: list[float]) -> float:
    """By what the norm is multiplied at each of the later steps."""
    half = len(found) // 2
    return math.exp((math.log(found[-1]) - math.log(found[half])) / max(1, len(found) - 1 - half))


def study(settings: Settings) -> Finding:
    """Compare linear and tanh networks of several spectral radii."""
    if not settings.radii or min(settings.radii) <= 0 or settings.steps < 4 or settings.width < 1:
        raise ConfigError("expected radii above 0, steps of at least 4 and a width of at least 1")
    rows, charts = [], []
    for name in ("linear", "tanh"):
        curves = []
        for number, radius in enumerate(settings.radii):
            found = norms(settings, radius, name == "linear")
            curves.append(Curve(f"ρ = {radius:g}", [(float(t), max(norm, 1e-12)) for t, norm in enumerate(found, 1)], f"c{number % 8}"))
            rows.append((name, f"{radius:g}", f"{found[settings.steps // 2 - 1]:.3g}", f"{found[-1]:.3g}", f"{rate(found):.3f}"))
        charts.append(chart(f"‖∂h_T/∂h_0‖ of a {name} network, by T", curves, tall=True, log=True, across="T"))
    linear = ", ".join(f"{row[4]} for ρ = {row[1]}" for row in rows if row[0] == "linear")
    tanh = ", ".join(row[4] for row in rows if row[0] == "tanh")
    claim = f"At each step the gradient of a linear network is multiplied by {linear}: by the spectral radius. The slopes of tanh make it "
    claim += f"{tanh}. Above 1 it explodes, below 1 it vanishes, and nothing in between lasts."
    head = ("network", "ρ", f"‖∂h_T/∂h_0‖ at T = {settings.steps // 2}", f"at T = {settings.steps}", "per step")
    return Finding("Gradients through time", claim, head, tuple(rows), "".join(charts))
