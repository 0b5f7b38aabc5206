"""One head against two where one key has a random length.

The key of a is about γ times its mean, γ ~ N(1, 1/2). One head asked for both by β (μ_a + μ_b) scores them β γ and β: which of
the two is larger is a coin toss, and the softmax makes it a choice. Two heads, asked for one each, compare a key only with
keys that score about 0, so that γ matters no more unless it is near or below 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from weft.report.curves import Curve
from weft.report.svg import chart
from weft.studies.base import Finding
from weft.studies.language.attention import RandomKeys, attend, normal, points

SPREAD = 0.5
"""Variance of γ."""
NEAR = 0.1
"""An output this near to the average of the two values counts as the average."""


@dataclass(frozen=True)
class Heads:
    """Outputs (draws, width) of one head and of the mean of two, and the weights (draws, keys) of all three."""

    one: Tensor
    two: Tensor
    single: Tensor
    first: Tensor
    second: Tensor


def draw(settings: RandomKeys, means: Tensor, generator: torch.Generator) -> Tensor:
    """Keys (draws, keys, width); that of a has the covariance noise I + μ_a μ_aᵀ / 2, all others noise I."""
    keys = settings.draw(means, generator)
    keys[:, 0] += math.sqrt(SPREAD) * normal(generator, settings.draws, 1) * means[0]
    return keys


def read(keys: Tensor, values: Tensor, means: Tensor, beta: float) -> Heads:
    """Ask one head for a and b, then two heads for one each."""
    a, b = means[:2]
    weights, outputs = attend(keys, values, beta * torch.stack([a + b, a, b]))
    return Heads(outputs[:, 0], outputs[:, 1:].mean(1), *weights.unbind(1))


def variance(outputs: Tensor) -> float:
    """Of all coordinates together: the trace of the covariance."""
    return float(outputs.var(0).sum())


def part(which: Tensor) -> float:
    """The share of draws for which something holds."""
    return float(which.double().mean())


def turning(keys: int, beta: float) -> float:
    """The γ at which the first of two heads gives a as much weight as all other keys together."""
    return math.log(keys - 1) / beta


def weight(gamma: Tensor, beta: float, middle: float) -> Tensor:
    """A head's weight on a, a logistic of γ, as noise goes to 0: one head turns at γ = 1, the first of two at turning()."""
    return torch.sigmoid(beta * (gamma - middle))


def quantile(shares: Tensor) -> Tensor:
    """The γ below which that share of the draws lies."""
    found: Tensor = 1 + math.sqrt(SPREAD) * torch.special.ndtri(shares)
    return found


def share(gamma: Tensor) -> Tensor:
    """The share of draws whose γ is smaller; Φ(−√2), 7.9 %, for 0."""
    found: Tensor = torch.special.ndtr((gamma - 1) / math.sqrt(SPREAD))
    return found


def weight_variance(beta: float, middle: float) -> float:
    """Variance of weight() over γ, by midpoints of the Gaussian's shares."""
    number = 200_000
    found = weight(quantile((torch.arange(number, dtype=torch.float64) + 0.5) / number), beta, middle)
    return float(found.var(correction=0))


def expected(keys: int, beta: float) -> tuple[float, float]:
    """Variance of the output of one head and of two, as noise goes to 0, for orthonormal values and a β that silences other keys.

    Weight moves between v_a and v_b (squared distance 2) in one head. In the first of two it moves between v_a and the mean of
    all n − 1 others (squared distance n / (n − 1)), and the mean of two heads halves that, so its variance is a quarter.
    """
    one = 2 * weight_variance(beta, 1.0)
    return one, keys / (keys - 1) * weight_variance(beta, turning(keys, beta)) / 4


def study(settings: RandomKeys) -> Finding:
    """The spread of the output of one head and of two, over draws of the keys."""
    means, values, generator = settings.bases(settings.keys)
    keys = draw(settings, means, generator)
    found = read(keys, values, means, settings.beta)
    formulas = expected(settings.keys, settings.beta)
    middle = values[:2].mean(0)
    rows = []
    for name, outputs, on_a, formula in (
        ("one head", found.one, found.single[:, 0], formulas[0]),
        ("two heads", found.two, (found.first + found.second)[:, 0] / 2, formulas[1]),
    ):
        far = (outputs - middle).norm(dim=-1)
        numbers = (float(on_a.mean()), float(on_a.std()), variance(outputs), formula, float(far.square().mean()))
        rows.append((name, *(f"{number:.4f}" for number in numbers), f"{part(far < NEAR):.1%}"))
    head = ("", "mean weight on a", "deviation", "variance of c", "formula", "mean squared distance from average", f"within {NEAR:g}")
    swept = []
    for beta in settings.betas(51).tolist():
        heads = read(keys, values, means, beta)
        swept.append((beta, variance(heads.one), variance(heads.two)))
    curves = [
        Curve("one head", [(beta, one) for beta, one, _ in swept], "c0"),
        Curve("two heads", [(beta, two) for beta, _, two in swept], "c1"),
    ]
    figure = distribution(settings, found)
    figure += chart("variance of the output c, by β", curves, tall=True, across="β")
    return Finding("One head or two", conclusion(settings, found), head, tuple(rows), figure)


def distribution(settings: RandomKeys, found: Heads) -> str:
    """The weight on a, sorted over the draws (dots), beside what the logistic of a Gaussian says (lines)."""
    even = torch.linspace(0, 1, 301, dtype=torch.float64)
    curves = []
    for label, styles, on_a, heads, middle in (
        ("one head", ("c6", "c0"), found.single[:, 0], 1, 1.0),
        ("two heads", ("c4", "c1"), (found.first + found.second)[:, 0] / 2, 2, turning(settings.keys, settings.beta)),
    ):
        steep = middle + torch.linspace(-5, 5, 15, dtype=torch.float64) / settings.beta
        dots = torch.cat([even[6::12], share(steep)]).sort().values  # more of them where the weight changes
        curves.append(Curve(f"{label}, formula", points(100 * even, weight(quantile(even), settings.beta, middle) / heads), styles[0]))
        curves.append(Curve(f"{label}, drawn", points(100 * dots, on_a.quantile(dots)), styles[1]))
    return chart("weight on a, draws from the smallest to the largest (%)", curves, tall=True, across="% of the draws")


def conclusion(settings: RandomKeys, found: Heads) -> str:
    """What the numbers say, in words."""
    one, two = variance(found.one), variance(found.two)
    turn = turning(settings.keys, settings.beta)
    misses, least = share(torch.tensor([turn, 0.0], dtype=torch.float64)).tolist()
    text = f"The output's variance is {one:.4f} with one head and {two:.4f} with two, a ratio of {two / one:.3f}. One head weighs a"
    text += " against b, whose scores differ by β (γ − 1), a coin toss: one of the two has more than 0.9 of the weight in"
    text += f" {part(found.single[:, :2].amax(1) > 0.9):.1%} of the draws. Of two heads the second gives b at least"
    text += f" {float(found.second[:, 1].min()):.3f}, whatever γ is, and the first gives a less than 1/2 only where γ is below"
    text += f" ln(n − 1) / β = {turn:.3f}: in {part(found.first[:, 0] < 0.5):.1%} of the draws (by the formula {misses:.1%}, and"
    return f"{text} with the longest of queries still P(γ < 0) = {least:.1%}). So the variance is small, but not 0."
