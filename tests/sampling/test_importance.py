"""Importance sampling on a distribution whose means are known."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from weft.core import random
from weft.core.errors import DataError
from weft.sampling.importance import effective_sample_size, log_mean, plain, self_normalised

P = torch.tensor([0.1, 0.2, 0.4, 0.3], dtype=torch.float64)
Q = torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=torch.float64)
VALUES = torch.tensor([1.0, -2.0, 0.5, 4.0], dtype=torch.float64)
TRUTH = float(P @ VALUES)


def draws(q: Tensor, *shape: int, seed: int = 0) -> Tensor:
    """Numbers of states, (*shape)."""
    noise = random.uniform(random.keys(seed, torch.arange(math.prod(shape))))
    return torch.searchsorted(q.cumsum(0), noise.double()).clamp(max=len(q) - 1).view(shape)


def log_weights(x: Tensor, p: Tensor = P, q: Tensor = Q) -> Tensor:
    return (p / q).log()[x]


def variance(q: Tensor) -> float:
    """Of f p / q for one draw of q, exactly."""
    return float(((VALUES * P) ** 2 / q).sum()) - TRUTH**2


def test_the_plain_estimate_is_unbiased_even_from_three_draws() -> None:
    x = draws(Q, 40_000, 3)
    terms = torch.stack([plain(VALUES[row], log_weights(row)).mean for row in x[:2000]])
    assert abs(float(terms.mean()) - TRUTH) < 4 * math.sqrt(variance(Q) / 3 / 2000)
    every = (VALUES[x] * log_weights(x).exp()).mean()  # the same mean over all of them
    assert abs(float(every) - TRUTH) < 4 * math.sqrt(variance(Q) / x.numel())


def test_an_unnormalised_density_needs_self_normalised_weights() -> None:
    x = draws(Q, 100_000)
    unnormalised = log_weights(x) + math.log(7)
    found = self_normalised(VALUES[x], unnormalised)
    assert abs(float(found.mean) - TRUTH) < 4 * float(found.error)
    assert float(found.error) < 0.03
    torch.testing.assert_close(found.mean, self_normalised(VALUES[x], log_weights(x)).mean)
    assert float(plain(VALUES[x], unnormalised).mean) == pytest.approx(7 * TRUTH, rel=0.05)


def test_the_self_normalised_estimate_is_biased_but_consistent() -> None:
    means = {n: torch.stack([self_normalised(VALUES[r], log_weights(r)).mean for r in draws(Q, 3000, n, seed=n)]) for n in (2, 50)}
    bias = {n: abs(float(m.mean()) - TRUTH) for n, m in means.items()}
    assert bias[2] > 4 * float(means[2].std()) / math.sqrt(3000)
    assert bias[50] < bias[2] / 5


def test_the_variance_is_least_where_q_is_in_proportion_to_f_times_p() -> None:
    best = (VALUES.abs() * P) / (VALUES.abs() * P).sum()
    generator = torch.Generator().manual_seed(0)
    others = torch.rand(500, 4, generator=generator, dtype=torch.float64) + 1e-3
    assert all(variance(q / q.sum()) >= variance(best) for q in others)
    assert variance(P) > variance(best) + 0.1
    x = draws(best, 50_000)
    found = plain(VALUES[x], log_weights(x, q=best))
    assert float(found.error) == pytest.approx(math.sqrt(variance(best) / 50_000), rel=0.03)


def test_a_positive_f_has_an_estimate_without_any_variance() -> None:
    values = VALUES.abs()
    q = values * P / (values * P).sum()
    x = draws(q, 10)
    found = plain(values[x], log_weights(x, q=q))
    assert float(found.error) < 1e-12
    assert float(found.mean) == pytest.approx(float(P @ values))


def test_effective_sample_size() -> None:
    assert float(effective_sample_size(torch.full((10,), -3.0))) == pytest.approx(10)
    assert float(effective_sample_size(torch.tensor([0.0, -100.0, -100.0]))) == pytest.approx(1)
    x = draws(Q, 100_000)
    expected = 100_000 / float((P**2 / Q).sum())  # N / E_q[w²]
    assert float(effective_sample_size(log_weights(x))) == pytest.approx(expected, rel=0.02)


def test_the_logarithm_of_a_mean_weight_is_log_z() -> None:
    x = draws(Q, 100_000)
    found = log_mean(log_weights(x) + 500)
    assert abs(float(found.mean) - 500) < 4 * float(found.error)
    assert float(found.error) < 0.01


def test_a_column_beside_a_row_is_refused() -> None:
    row, column = torch.zeros(4), torch.zeros(4, 1)
    for asked in (plain, self_normalised):
        with pytest.raises(DataError, match=r"log_weights \(4, 1\) and values \(4,\)"):
            asked(row, column)
    for alone in (effective_sample_size, log_mean):
        for wrong in (column, torch.zeros(0)):
            with pytest.raises(DataError, match="one number for each of at least one draw"):
                alone(wrong)


def test_the_effective_size_at_its_ends() -> None:
    assert effective_sample_size(torch.full((8,), -1e30)) == 8
    assert effective_sample_size(torch.tensor([-1e30, 0.0, -torch.inf])) == 1
    assert effective_sample_size(torch.full((3,), -torch.inf)) == 0
