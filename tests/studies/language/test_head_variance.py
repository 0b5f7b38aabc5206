"""One head's weight is a logistic of a Gaussian; two heads vary far less, and not at all by chance."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
import torch
from torch import Tensor

from weft.studies.language.attention import RandomKeys
from weft.studies.language.head_variance import Heads, draw, expected, part, quantile, read, share, study, turning, variance, weight

BETA, KEYS = 50.0, 8


def drawn(noise: float = 1e-6, draws: int = 10_000) -> tuple[Tensor, Heads]:
    """γ and what the heads read."""
    settings = RandomKeys(noise=noise, draws=draws, beta=BETA, keys=KEYS)
    means, values, generator = settings.bases(KEYS)
    keys = draw(settings, means, generator)
    return keys[:, 0] @ means[0], read(keys, values, means, BETA)


def test_the_first_key_varies_along_its_mean_only() -> None:
    settings = RandomKeys(noise=0.1, draws=20_000, keys=2, width=3)
    means, _, generator = settings.bases(2)
    keys = draw(settings, means, generator)
    noise = 0.1 * torch.eye(3, dtype=torch.float64)
    torch.testing.assert_close(keys[:, 0].mT.cov(), noise + means[0].outer(means[0]) / 2, rtol=0, atol=0.02)
    torch.testing.assert_close(keys[:, 1].mT.cov(), noise, rtol=0, atol=0.02)


def test_with_vanishing_noise_every_weight_is_a_logistic_of_gamma() -> None:
    gamma, found = drawn(noise=1e-14, draws=2000)
    torch.testing.assert_close(found.single[:, 0], weight(gamma, BETA, 1.0), rtol=0, atol=1e-5)
    torch.testing.assert_close(found.single[:, 1], 1 / (1 + (BETA * (gamma - 1)).exp()), rtol=0, atol=1e-5)
    torch.testing.assert_close(found.first[:, 0], weight(gamma, BETA, turning(KEYS, BETA)), rtol=0, atol=1e-5)


def test_the_distribution_of_one_heads_weight() -> None:
    gamma, found = drawn()
    weights = found.single[:, 0]
    assert float((weights - weight(gamma, BETA, 1.0)).abs().mean()) < 1e-3
    ranks = (torch.arange(len(weights), dtype=torch.float64) + 0.5) / len(weights)
    apart = (weights.sort().values - weight(quantile(ranks), BETA, 1.0)).abs().mean()  # the Wasserstein distance
    assert float(apart) < 0.015  # three standard errors of a coin toss


def test_variances_are_those_of_the_formula_and_two_heads_vary_less() -> None:
    _, found = drawn()
    one, two = expected(KEYS, BETA)
    assert variance(found.one) == pytest.approx(one, rel=0.02)
    assert variance(found.two) == pytest.approx(two, rel=0.1)
    assert variance(found.two) < 0.06 * variance(found.one)


def test_the_formula_in_the_limit_of_long_queries() -> None:
    """One head tosses a coin between values √2 apart; two fail with probability Φ(−√2)."""
    one, two = expected(KEYS, 1e5)
    misses = 0.5 * math.erfc(1)
    assert misses == pytest.approx(0.0786, abs=5e-5)
    assert float(share(torch.zeros((), dtype=torch.float64))) == pytest.approx(misses, rel=1e-12)
    assert one == pytest.approx(0.5, rel=1e-3)
    assert two == pytest.approx(KEYS / (KEYS - 1) * misses * (1 - misses) / 4, rel=1e-3)


def test_two_heads_miss_only_where_gamma_is_near_or_below_zero() -> None:
    gamma, found = drawn()
    missed = found.first[:, 0] < 0.5
    turn = turning(KEYS, BETA)
    assert gamma[missed].max() < turn + 0.01
    assert gamma[~missed].min() > turn - 0.01
    assert part(missed) == pytest.approx(float(share(torch.tensor(turn, dtype=torch.float64))), abs=0.01)
    assert part(missed) > 0.07
    assert found.second[:, 1].min() > 1 - 1e-12


def test_shares_and_quantiles_are_inverse() -> None:
    shares = torch.linspace(0.01, 0.99, 9, dtype=torch.float64)
    torch.testing.assert_close(share(quantile(shares)), shares)


def test_the_page(tmp_path: Path) -> None:
    finding = study(RandomKeys(draws=1000))
    ratio = re.search(r"a ratio of (\S+)\. ", finding.claim)
    assert ratio is not None
    assert float(ratio[1]) < 0.1
    assert "P(γ < 0) = 7.9%" in finding.claim
    assert [row[0] for row in finding.rows] == ["one head", "two heads"]
    finding.write(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text().count('class="chart tall') == 2
