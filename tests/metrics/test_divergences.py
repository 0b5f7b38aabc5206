"""Identities of the game's value, of the Jensen-Shannon divergence and of the Wasserstein distance; descent to the data."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from weft.metrics.divergences import (
    dual_value,
    jensen_shannon,
    wasserstein,
    wasserstein_on_line,
)


def best_discriminator(p: Tensor, q: Tensor) -> Tensor:
    """D = p / (p + q), 1/2 where there is neither."""
    return torch.where(p + q > 0, p / (p + q).clamp(min=1e-300), 0.5)


def gan_value(p: Tensor, q: Tensor, discriminator: Tensor) -> Tensor:
    """E_p log D + E_q log(1 - D), which the discriminator makes large."""
    return (torch.xlogy(p, discriminator) + torch.xlogy(q, 1 - discriminator)).sum(-1)


def lipschitz(potential: Tensor, places: Tensor) -> Tensor:
    """The steepest slope of a potential (K,) between ascending places (K,)."""
    return (potential.diff() / places.diff()).abs().max()


def descend(p_data: Tensor, p_g: Tensor, steps: int, rate: float) -> list[Tensor]:
    """p_g (K,) after each step of gradient descent on U = E_data log D + E_g log(1 - D), with D at its best for it each time.

    U is convex in p_g (a supremum of linear functions), and its gradient at the best D is log(1 - D): so p_g goes to p_data (section 4.2
    of the paper). The step is taken in the simplex, multiplying by exp(-rate * gradient) and normalising.
    """
    course = [p_g]
    for _ in range(steps):
        gradient = torch.log1p(-best_discriminator(p_data, course[-1]))
        moved = course[-1] * (-rate * gradient).exp()
        course.append(moved / moved.sum())
    return course


def distributions(number: int, atoms: int = 6) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    p = torch.rand(number, atoms, generator=generator, dtype=torch.float64) ** 3
    p[::3, 0] = 0
    return p / p.sum(1, keepdim=True)


def test_the_value_at_the_best_discriminator_is_twice_the_divergence_less_log_4() -> None:
    p, q = distributions(200).chunk(2)
    best = best_discriminator(p, q)
    torch.testing.assert_close(gan_value(p, q, best), 2 * jensen_shannon(p, q) - math.log(4))
    for change in (0.01, -0.01):
        assert (gan_value(p, q, (best + change).clamp(1e-6, 1 - 1e-6)) <= gan_value(p, q, best) + 1e-9).all()
    torch.testing.assert_close(gan_value(p, p, best_discriminator(p, p)), torch.full((100,), -math.log(4), dtype=torch.float64))


def test_the_divergence_is_symmetric_and_its_root_a_metric() -> None:
    p, q, r = distributions(300).chunk(3)
    torch.testing.assert_close(jensen_shannon(p, q), jensen_shannon(q, p))
    assert (jensen_shannon(p, q) >= 0).all()
    assert (jensen_shannon(p, q) <= math.log(2) + 1e-12).all()
    root = [jensen_shannon(a, b).clamp(min=0).sqrt() for a, b in ((p, r), (p, q), (q, r))]
    assert (root[0] <= root[1] + root[2] + 1e-12).all()
    assert float(jensen_shannon(p, p).abs().max()) < 1e-12


def test_moving_by_rank_is_the_cheapest_plan() -> None:
    """Sorting against the linear program over all plans."""
    linprog = pytest.importorskip("scipy.optimize").linprog
    generator = torch.Generator().manual_seed(0)
    for size in (3, 6):
        first, second = torch.randn(2, size, generator=generator, dtype=torch.float64)
        cost = (first[:, None] - second[None]).abs()
        rows = torch.kron(torch.eye(size, dtype=torch.float64), torch.ones(1, size, dtype=torch.float64))
        columns = torch.kron(torch.ones(1, size, dtype=torch.float64), torch.eye(size, dtype=torch.float64))
        plan = linprog(cost.flatten().numpy(), A_eq=torch.cat([rows, columns]).numpy(), b_eq=[1 / size] * (2 * size))
        assert float(wasserstein(first, second)) == pytest.approx(plan.fun, abs=1e-8)


def test_a_critic_is_below_the_distance_and_reaches_it() -> None:
    p, q = distributions(2)
    places = torch.linspace(0, 2, 6, dtype=torch.float64)
    distance = wasserstein_on_line(p, q, places)
    best = -(torch.sign((p - q).cumsum(0))[:-1] * places.diff()).cumsum(0)
    potential = torch.cat([torch.zeros(1, dtype=torch.float64), best])
    assert float(lipschitz(potential, places)) == pytest.approx(1.0)
    assert float(dual_value(potential, p, q)) == pytest.approx(float(distance))
    for seed in range(20):
        other = torch.randn(6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        assert float(dual_value(other / lipschitz(other, places), p, q)) <= float(distance) + 1e-12


def test_points_and_weights_on_the_line_agree() -> None:
    places = torch.arange(5, dtype=torch.float64)
    p, q = torch.tensor([0.5, 0.5, 0.0, 0.0, 0.0]).double(), torch.tensor([0.0, 0.0, 0.25, 0.5, 0.25]).double()
    first, second = (places.repeat_interleave((4 * weights).long()) for weights in (p, q))
    assert float(wasserstein_on_line(p, q, places)) == pytest.approx(float(wasserstein(first, second))) == 2.5


@pytest.mark.parametrize("shift", [1, 2, 3])
def test_without_a_common_point_one_is_constant_and_the_other_the_shift(shift: int) -> None:
    places = torch.arange(5, dtype=torch.float64)
    p, q = torch.zeros(2, 5, dtype=torch.float64)
    p[0] = q[shift] = 1
    assert float(jensen_shannon(p, q)) == pytest.approx(math.log(2))
    assert float(wasserstein_on_line(p, q, places)) == shift


def test_descent_with_the_best_discriminator_reaches_the_data() -> None:
    p, q = distributions(2)
    q = (q + 0.1) / (q + 0.1).sum()
    course = descend(p, q, 2000, 0.5)
    gaps = [float(jensen_shannon(p, one)) for one in course]
    assert all(later <= earlier + 1e-12 for earlier, later in pairwise(gaps))
    assert gaps[-1] < 1e-4
