"""Why the gradient of a softmax is not estimated by importance sampling: its variance explodes as the model grows sure (Bengio & Senécal,
2003; Mnih & Teh, 2012).

The gradient of log Z is the mean of the scores' gradients under the model, E_model. Drawn from the words' own shares q instead, each word
counts by the weight u / q, and where the model puts its mass on words that q hardly draws, a few weights decide everything. The chi-square
divergence of the model from q is the variance of the weights. (NCE's weights, u / (u + k q), are below 1 whatever the model says.)
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass

import torch
from torch import Tensor

from weft.core.config import Config
from weft.core.errors import ConfigError
from weft.report.curves import Curve
from weft.report.svg import chart
from weft.studies.base import Finding


@dataclass(frozen=True, kw_only=True)
class Settings(Config):
    words: int = 2000
    """Vocabulary."""
    width: int = 32
    """Of the vectors of words, which are the gradients of their scores."""
    samples: int = 100
    """Words drawn for an estimate."""
    estimates: int = 400
    """Of which the variance is taken."""
    sharpness: tuple[float, ...] = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0)
    """Standard deviations of the scores by which a model differs from the words' own shares."""
    seeds: int = 3
    """Models of each sharpness."""


def model_of(settings: Settings, sharpness: float, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """The words' own shares q (V,), the model's probabilities (V,), and the vectors of words (V, D)."""
    generator = torch.Generator().manual_seed(seed)
    q = 1 / torch.arange(1, settings.words + 1, dtype=torch.double)
    q = q / q.sum()
    scores = sharpness * torch.randn(settings.words, generator=generator, dtype=torch.double)
    vectors = torch.randn(settings.words, settings.width, generator=generator, dtype=torch.double)
    return q, (q.log() + scores).softmax(0), vectors


def exact(q: Tensor, p: Tensor) -> tuple[float, float]:
    """The perplexity of the model, and the variance of its weights p / q under q: the chi-square divergence."""
    return float((-(p * p.log()).sum()).exp()), max(0.0, float((p.square() / q).sum() - 1))


def estimates(settings: Settings, q: Tensor, p: Tensor, vectors: Tensor, seed: int) -> dict[str, float]:
    """The spread of estimates beside the size of what they estimate, the root of the mean square of each.

    importance: E_model by weights that are divided by their sum; model: by words drawn from the model itself. And how many samples of equal
    weight the drawn ones are worth, and the share of the largest weight among them."""
    generator = torch.Generator().manual_seed(seed)
    shape, truth = (settings.estimates, settings.samples), p @ vectors
    drawn = torch.multinomial(q, shape[0] * shape[1], True, generator=generator).view(shape)
    weight = (p / q)[drawn]
    share = weight / weight.sum(1, keepdim=True)
    importance = (share[:, None] @ vectors[drawn]).squeeze(1)
    model = vectors[torch.multinomial(p, shape[0] * shape[1], True, generator=generator).view(shape)].mean(1)
    spread = {name: each - truth for name, each in (("importance", importance), ("model", model))}
    errors = {name: float(each.square().sum(1).mean().sqrt() / truth.norm()) for name, each in spread.items()}
    return {**errors, "samples": float((1 / share.square().sum(1)).mean()), "largest": float(share.amax(1).mean())}


def study(settings: Settings) -> Finding:
    """Spread of estimates by how sure the model is."""
    if not settings.sharpness or min(settings.words, settings.width, settings.samples, settings.seeds) < 1 or settings.estimates < 2:
        raise ConfigError("expected sharpness, words, a width, samples and seeds of at least 1, and at least 2 estimates")
    curves: dict[str, list[tuple[float, float]]] = {"importance": [], "model": []}
    rows = []
    for sharpness in settings.sharpness:
        found: dict[str, list[float]] = {}
        for seed in range(1, settings.seeds + 1):
            q, p, vectors = model_of(settings, sharpness, seed)
            perplexity, variance = exact(q, p)
            for name, value in {"perplexity": perplexity, "variance": variance, **estimates(settings, q, p, vectors, seed)}.items():
                found.setdefault(name, []).append(value)
        mean = {name: statistics.fmean(values) for name, values in found.items()}
        for name, points in curves.items():
            points.append((sharpness, mean[name]))
        cells = (f"{mean['perplexity']:.0f}", f"{mean['variance']:.3g}", f"{mean['samples']:.1f}")
        rows.append((f"{sharpness:g}", *cells, *(f"{mean[name]:.3f}" for name in curves), f"{100 * mean['largest']:.0f} %"))
    titles = {"importance": "importance sampling", "model": "drawn from the model"}
    lines = [Curve(titles[name], points, f"c{number}") for number, (name, points) in enumerate(curves.items())]
    figure = chart("spread of an estimated gradient beside its size, by the sharpness of the model", lines, tall=True, across="sharpness")
    claim = (
        f"From a sharpness of {rows[0][0]} to {rows[-1][0]} the variance of importance weights grows from {rows[0][2]} to {rows[-1][2]}. "
        f"{settings.samples} samples are then worth {rows[-1][3]} of equal weight, and one of them has {rows[-1][6]} of it all."
    )
    head = ("sharpness", "perplexity", "variance of weights", "samples they are worth", "spread, importance", "drawn from the model")
    return Finding("Importance sampling of a softmax", claim, (*head, "largest share of one sample"), tuple(rows), figure)
