"""How far a score may be off because other examples, or another seed, could have been drawn: intervals of 95 %."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence

import numpy as np

Z = statistics.NormalDist().inv_cdf(0.975)
STUDENT = (
    12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004, 2.262157, 2.228139,
    2.200985, 2.178813, 2.160369, 2.144787, 2.131450, 2.119905, 2.109816, 2.100922, 2.093024, 2.085963,
    2.079614, 2.073873, 2.068658, 2.063899, 2.059539, 2.055529, 2.051831, 2.048407, 2.045230, 2.042272,
)  # fmt: skip
"""The 97.5 % quantile of Student's t distribution with 1, 2, … degrees of freedom."""
RESAMPLES = 1000


def wilson(right: float, number: float) -> tuple[float, float]:
    """The interval of a share, `right` of `number` (Wilson, 1927): inside 0 to 1, also where all or none are right."""
    share, spread = right / number, Z * Z / number
    middle = share + spread / 2
    half = Z * math.sqrt(share * (1 - share) / number + spread / (4 * number))
    return max(0.0, (middle - half) / (1 + spread)), min(1.0, (middle + half) / (1 + spread))


def student(values: Sequence[float]) -> tuple[float, float]:
    """The interval of a mean of at least two values, such as one score of several seeds, by Student's t distribution."""
    freedom = len(values) - 1
    half = (STUDENT[freedom - 1] if freedom <= len(STUDENT) else Z) * statistics.stdev(values) / math.sqrt(len(values))
    return statistics.fmean(values) - half, statistics.fmean(values) + half


def bootstrap(groups: np.ndarray, score: Callable[[np.ndarray], Sequence[float]], seed: int = 0) -> list[tuple[float, float]]:
    """The intervals of scores of summed statistics: groups (G, S) of examples are drawn again with replacement (Efron, 1979)."""
    chance = np.random.default_rng(seed)
    times = chance.multinomial(len(groups), [1 / len(groups)] * len(groups), size=RESAMPLES)  # (R, G)
    found = np.array([score(sums) for sums in times @ groups], dtype=np.float64)  # (R, scores)
    return [(float(low), float(high)) for low, high in np.quantile(found, [0.025, 0.975], axis=0).T]
