"""Scores of attention by the width d of queries and keys: additive, dot, and dot divided by √d (Vaswani et al., 2017, arXiv:1706.03762).

The dot of two vectors of d independent numbers of variance 1 has variance d. So the softmax of such scores is the surer the wider they
are, and at last all of its weight is on one key; then it has no gradient, as small changes of the scores change nothing. Divided by √d they
have variance 1 for every d. An additive score is a sum of tanh under weights of Xavier's variance, which does not grow either.

Entropy of the weights in nats (ln n for weights that are all alike), and the Frobenius norm of the softmax's Jacobian diag(p) - p pᵀ.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

import torch
from torch import Tensor

from weft.core.config import Config
from weft.core.errors import ConfigError
from weft.nn.rnn_attention import Score, score_of
from weft.report.svg import chart
from weft.studies.base import Finding
from weft.studies.language.exposure_bias import curve

SCORES: dict[Score, str] = {"additive": "additive", "dot": "dot", "scaled_dot": "dot / √d"}


@dataclass(frozen=True, kw_only=True)
class Settings(Config):
    widths: tuple[int, ...] = (4, 16, 64, 256, 1024)
    """Widths d of queries and keys."""
    keys: int = 32
    """Number n of keys."""
    queries: int = 64
    """Queries that are averaged over."""
    seeds: tuple[int, ...] = (1, 2, 3)
    """Of queries, keys and the weights of the additive score."""


@torch.no_grad()
def measured(settings: Settings, kind: Score, width: int, seed: int) -> tuple[float, float, float]:
    """Standard deviation of the scores, mean entropy of the weights, mean norm of the softmax's Jacobian."""
    torch.manual_seed(seed)
    query, keys = torch.randn(1, settings.queries, width), torch.randn(1, settings.keys, width)
    score = score_of(kind, width, width, width)
    scores: Tensor = score(query, score.project(keys))[0].double()  # type: ignore[operator]
    p = scores.softmax(-1)  # (Q, n)
    entropy = -(p * p.clamp(min=1e-300).log()).sum(-1).mean()
    jacobian = torch.diag_embed(p) - p[:, :, None] * p[:, None]  # (Q, n, n)
    return float(scores.std(-1).mean()), float(entropy), float(torch.linalg.matrix_norm(jacobian).mean())


def study(settings: Settings) -> Finding:
    """Compare the three scores over widths."""
    if not settings.widths or not settings.seeds or settings.keys < 2 or settings.queries < 1 or min(settings.widths) < 1:
        raise ConfigError("expected widths, seeds, at least one query and at least 2 keys")
    rows, entropies, gradients, ends = [], [], [], {}
    for number, (kind, name) in enumerate(SCORES.items()):
        by_seed = [[measured(settings, kind, width, seed) for width in settings.widths] for seed in settings.seeds]
        entropies.append(curve(name, [[each[1] for each in run] for run in by_seed], f"c{number}", settings.widths))
        gradients.append(curve(name, [[each[2] for each in run] for run in by_seed], f"c{number}", settings.widths))
        for place, width in enumerate(settings.widths):
            rows.append((name, f"{width}", *(formatted([run[place][value] for run in by_seed]) for value in range(3))))
        ends[name] = [statistics.mean(run[place][1] for run in by_seed) for place in (0, -1)]
    figure = chart("entropy of the weights, by d", entropies, tall=True, up="entropy, nats", across="d")
    figure += chart("norm of the softmax's Jacobian, by d", gradients, tall=True, across="d")
    head = ("score", "d", "standard deviation of scores", "entropy, nats", "norm of the Jacobian")
    first, last = settings.widths[0], settings.widths[-1]
    said = ", ".join(f"{name} {a:.2f} and {b:.2f}" for name, (a, b) in ends.items())
    even = f"{math.log(settings.keys):.2f} nats if all were alike"
    claim = f"{settings.keys} keys. Entropy of the weights at d = {first} and {last}, {even}: {said}. A dot that is not divided leaves the"
    claim += " softmax on one key, without a gradient; the others stay as they are."
    return Finding("Scores of attention", claim, head, tuple(rows), figure)


def formatted(values: list[float]) -> str:
    """Mean and standard deviation over seeds."""
    deviation = f" ± {statistics.stdev(values):.2g}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.3g}{deviation}"
