"""Named initialisations: their spread, and what it does to a signal through a hundred layers."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from weft.nn import init

ROWS, COLUMNS = 400, 600
SPREADS: list[tuple[Callable[[Tensor], None], float]] = [
    (init.normal, 0.02),
    (lambda w: init.normal(w, 0.5), 0.5),
    (init.xavier_uniform, math.sqrt(2 / (ROWS + COLUMNS))),
    (init.he, math.sqrt(2 / COLUMNS)),
    (lambda w: init.residual(w, 12), 0.02 / math.sqrt(24)),
]


@pytest.mark.parametrize(("initialise", "std"), SPREADS)
def test_spread_is_within_two_percent(initialise: Callable[[Tensor], None], std: float) -> None:
    torch.manual_seed(0)
    weight = torch.empty(ROWS, COLUMNS)
    initialise(weight)
    assert float(weight.std()) == pytest.approx(std, rel=0.02)
    assert float(weight.mean()) == pytest.approx(0, abs=0.02 * std)


def test_xavier_is_uniform() -> None:
    weight = torch.empty(ROWS, COLUMNS)
    init.xavier_uniform(weight)
    bound = math.sqrt(6 / (ROWS + COLUMNS))
    assert float(weight.abs().max()) == pytest.approx(bound, rel=1e-3)
    assert float(weight.abs().max()) <= bound


@pytest.mark.parametrize("radius", [0.5, 1.0, 1.3])
def test_spectral_radius(radius: float) -> None:
    torch.manual_seed(0)
    weight = torch.empty(60, 60)
    init.spectral_radius(weight, radius)
    assert float(torch.linalg.eigvals(weight).abs().max()) == pytest.approx(radius, rel=1e-4)


@pytest.mark.parametrize(("name", "activation"), [("he", torch.relu), ("xavier_uniform", lambda x: x)])
def test_variance_stays_of_order_one_through_a_hundred_layers(name: str, activation: Callable[[Tensor], Tensor]) -> None:
    torch.manual_seed(0)
    x = torch.randn(64, 256)
    for _ in range(100):
        weight = torch.empty(256, 256)
        init.NAMED[name](weight)
        x = activation(x @ weight.T)
    assert 0.02 < float(x.square().mean()) < 50


def test_variance_stays_of_order_one_through_a_hundred_recurrences() -> None:
    torch.manual_seed(0)
    weight, x = torch.empty(64, 64), torch.randn(64, 64)
    init.spectral_radius(weight)
    for _ in range(100):
        x = x @ weight.T
    assert 0.01 < float(x.square().mean()) < 50


def test_small_normal_weights_lose_the_signal_without_residuals() -> None:
    """Why deep networks of N(0, 0.02²) need residuals and norms."""
    torch.manual_seed(0)
    x = torch.randn(8, 256)
    for _ in range(100):
        weight = torch.empty(256, 256)
        init.normal(weight)
        x = torch.relu(x @ weight.T)
    assert float(x.square().mean()) < 1e-30


def test_scaled_residual_branches_sum_to_the_size_of_one() -> None:
    """2L branches of variance s²/2L add up to variance s²."""
    torch.manual_seed(0)
    layers = 100
    x = torch.zeros(64, 256)
    for _ in range(2 * layers):
        weight = torch.empty(256, 256)
        init.residual(weight, layers, std=1 / 16)  # 1/sqrt(256): a branch of unit input has unit variance
        x = x + torch.randn(64, 256) @ weight.T
    assert float(x.var()) == pytest.approx(1, rel=0.1)
