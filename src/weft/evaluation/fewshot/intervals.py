"""How far a score may be off because other examples could have been drawn: intervals by the bootstrap (Efron, 1979)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch

from weft.core import random
from weft.metrics.ngrams import bleu

RESAMPLES = 1000


def finish(metric: str, sums: np.ndarray, count: int) -> float:
    """A metric from the summed statistics of so many examples: BLEU, the exponent of a mean, or a mean."""
    if metric == "bleu":
        return bleu(torch.from_numpy(sums), smooth=True)
    mean = float(sums[0]) / count
    return math.exp(min(mean, 700.0)) if metric == "perplexity" else mean


def estimate(metric: str, statistics: Sequence[Sequence[float]], seed: int) -> tuple[float, tuple[float, float]]:
    """A metric of examples, and the 95 % interval of its values on as many examples drawn from them with replacement."""
    values = np.array(statistics, dtype=np.float64)  # (examples, statistics)
    count = len(values)
    chance = np.random.default_rng(random.seed_of(seed, "bootstrap"))
    drawn = [finish(metric, values[chance.integers(count, size=count)].sum(0), count) for _ in range(RESAMPLES)]
    low, high = np.quantile(drawn, [0.025, 0.975]).tolist()
    return finish(metric, values.sum(0), count), (low, high)
