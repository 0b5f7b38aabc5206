"""One head averages two values: the query β (k_a + k_b) scores both keys alike and above all others.

Longer is better as long as the keys are exact. Where each key is a little off its mean, the query enlarges that too: the
scores of a and b then differ by a Gaussian of deviation 2 β sqrt(noise), and the best β is a compromise.

The sum of two values is no dead end: where they lie in subspaces at right angles, a projection takes it apart again.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from weft.report.curves import Curve
from weft.report.scales import short
from weft.report.svg import chart
from weft.studies.base import Finding
from weft.studies.language.attention import ROUNDING, RandomKeys, attend, normal, points, power

SHARES = (0, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1)
"""Rows of the table, as parts of the largest β."""


def average(keys: Tensor, values: Tensor, betas: Tensor, pair: Tensor) -> tuple[Tensor, Tensor]:
    """For every β (..., β), the weight on a and how far the output is from the mean of the first two values."""
    weights, outputs = attend(keys, values, betas[:, None] * pair)
    return weights[..., 0], (outputs - values[:2].mean(0)).norm(dim=-1)


def expected(keys: int, betas: Tensor) -> Tensor:
    """That distance as a formula, for exact keys and orthonormal values."""
    other = 1 / (2 * betas.exp() + keys - 2)  # the weight on each key not asked for
    lost = (keys - 2) * other / 2  # what each of the two is short of 1/2
    return (2 * lost**2 + (keys - 2) * other**2).sqrt()


def expected_noisy(noise: float, betas: Tensor) -> Tensor:
    """Its mean over random keys, β sqrt(noise / π), where other keys have no weight left and β sqrt(noise) is small.

    The scores of a and b differ by δ ~ N(0, 4 β² noise). That moves δ / 4 of weight between values √2 apart, and E|δ| is the
    deviation times sqrt(2 / π).
    """
    return betas * math.sqrt(noise / math.pi)


def extract(settings: RandomKeys) -> float:
    """How far M s is from v_a, where s = v_a + v_b, v_a is in the span of A, v_b in that of B, and M = A Aᵀ."""
    basis, _, generator = settings.bases(settings.keys)
    half = settings.keys // 2
    a, b = basis[:half].mT, basis[half:].mT  # columns (width, m) and (width, p)
    first, second = a @ normal(generator, a.shape[1]), b @ normal(generator, b.shape[1])
    return float((a @ a.mT @ (first + second) - first).norm())


def study(settings: RandomKeys) -> Finding:
    """Average two of n values with ever longer queries, with exact and with random keys."""
    means, values, generator = settings.bases(settings.keys)
    keys = settings.draw(means, generator)
    betas = settings.betas(101)
    pair = means[:2].sum(0)
    on_a, exact = average(means, values, betas, pair)
    drawn = (average(keys, values, beta[None], pair) for beta in betas)  # one β at a time, to save memory
    drawn_on_a, errors = (torch.cat(part, -1) for part in zip(*drawn))  # (draws, β)
    mean, worst = errors.mean(0), errors.amax(0)
    law = expected_noisy(settings.noise, betas)
    curves = [
        Curve("exact keys", points(betas, power(exact)), "c0"),
        Curve("random keys, mean", points(betas, power(mean)), "c1"),
        Curve("random keys, worst draw", points(betas, power(worst)), "c5"),
    ]
    weights = [
        Curve("on a, exact keys", points(betas, on_a), "c0"),
        Curve("random keys, largest", points(betas, drawn_on_a.amax(0)), "c5"),
        Curve("random keys, smallest", points(betas, drawn_on_a.amin(0)), "c1"),
        Curve("on all keys but a and b", points(betas, (1 - 2 * on_a).clamp_min(0)), "c7"),
    ]
    figure = chart("log₁₀ of the distance from the average, by β", curves, tall=True, across="β")
    figure += chart("weight, by β", weights, tall=True, across="β")
    places = [round(share * (len(betas) - 1)) for share in SHARES]
    columns = (betas, on_a, exact, expected(settings.keys, betas), mean, law, worst)
    table = zip(*(column[places].tolist() for column in columns))
    rows = tuple((f"{beta:g}", f"{weight:.6f}", *map(short, distances)) for beta, weight, *distances in table)
    head = ("β", "weight on a and on b", "distance, exact keys", "formula", "random keys, mean", "β √(noise / π)", "random keys, worst")
    return Finding("Attention averages two values", conclusion(settings, betas, exact, mean), head, rows, figure)


def conclusion(settings: RandomKeys, betas: Tensor, exact: Tensor, mean: Tensor) -> str:
    """What the numbers say, in words."""
    best = int(mean.argmin())
    text = "With exact keys the output of the query β (k_a + k_b) goes to the average of v_a and v_b:"
    text += f" {max(float(exact[-1]), ROUNDING):.0e} away at β = {settings.beta:g}. With keys of variance {short(settings.noise)}"
    text += f" around their means, {settings.draws:,} draws are on average {short(float(mean[best]))} away at the best β,"
    text += f" {float(betas[best]):g}, and {short(float(mean[-1]))} at {settings.beta:g}: a longer query enlarges the noise too, so the"
    text += " average holds while β √noise is small. From a sum of two values in orthogonal subspaces, the projection A Aᵀ gets the"
    return f"{text} first back within {extract(settings):.0e}."
