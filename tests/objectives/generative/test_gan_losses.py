"""Gradient penalty against finite differences and a linear critic; the losses against their formulas."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from weft.core import random
from weft.objectives.generative.gan_losses import GAN_LOSSES, feature_matching_loss, gan_loss, gradient_penalty, per_example

KEY = torch.arange(5)


def critic(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Flatten(), nn.Linear(12, 7), nn.Tanh(), nn.Linear(7, 1), nn.Flatten(0))
    return network.double()


def test_the_penalty_of_a_linear_critic_is_known() -> None:
    """f(x) = w x has the slope w everywhere, so the penalty is (|w| - 1)², the norm over all of an example, not per channel."""
    weight = torch.randn(12)
    real, fake = torch.rand(5, 3, 2, 2), torch.rand(5, 3, 2, 2)
    penalty = gradient_penalty(lambda x: x.flatten(1) @ weight, real, fake, KEY)
    torch.testing.assert_close(penalty, ((weight.norm() - 1).square()).expand(5))
    unit = gradient_penalty(lambda x: x.flatten(1) @ (weight / weight.norm()), real, fake, KEY)
    assert float(unit.abs().max()) < 1e-10


def test_the_penalty_is_of_each_example_by_itself() -> None:
    network = critic()
    torch.manual_seed(1)
    real, fake = torch.rand(2, 5, 3, 2, 2, dtype=torch.float64)
    whole = gradient_penalty(network, real, fake, KEY)
    single = torch.cat([gradient_penalty(network, real[i : i + 1], fake[i : i + 1], KEY[i : i + 1]) for i in range(5)])
    torch.testing.assert_close(whole, single)


def test_slopes_and_second_derivatives_agree_with_finite_differences() -> None:
    network = critic()
    torch.manual_seed(1)
    real, fake = torch.rand(2, 5, 3, 2, 2, dtype=torch.float64)

    def by_differences() -> Tensor:
        share = random.uniform(random.fold(KEY, "between")).double().view(-1, 1, 1, 1)
        between = torch.lerp(fake, real, share).flatten(1)
        step = 1e-5 * torch.eye(12, dtype=torch.float64)
        slopes = [(network(between + one) - network(between - one)) / 2e-5 for one in step]
        lengths: Tensor = torch.stack(slopes, 1).norm(dim=1)
        return (lengths - 1).square()

    penalty = gradient_penalty(network, real, fake, KEY)
    torch.testing.assert_close(penalty, by_differences(), atol=1e-6, rtol=1e-5)
    penalty.sum().backward()  # type: ignore[no-untyped-call]
    weight = network[1].get_parameter("weight")
    for place in ((0, 0), (3, 5), (6, 11)):
        before = float(weight[place].detach())
        with torch.no_grad():
            values = []
            for change in (1e-5, -1e-5):
                weight[place] = before + change
                values.append(float(gradient_penalty(network, real, fake, KEY).sum()))
            weight[place] = before
        assert abs((values[0] - values[1]) / 2e-5 - float(weight.grad[place])) < 1e-5  # type: ignore[index]


def test_the_penalty_makes_a_steep_critic_flatter() -> None:
    """In a loss to be made small it has a plus: descent brings the slope to 1."""
    weight = nn.Parameter(torch.full((4,), 3.0))
    real, fake = torch.rand(5, 4), torch.rand(5, 4)
    for _ in range(200):
        (gradient,) = torch.autograd.grad(gradient_penalty(lambda x: x @ weight, real, fake, KEY).mean(), weight)
        weight.data -= 0.1 * gradient
    assert abs(float(weight.detach().norm()) - 1) < 1e-3


def test_it_can_be_measured_where_gradients_are_off() -> None:
    with torch.no_grad():
        assert not gradient_penalty(lambda x: x.sum(1), torch.rand(5, 4), torch.rand(5, 4), KEY).requires_grad


def test_losses_are_their_formulas() -> None:
    score = torch.tensor([-2.0, 0.0, 3.0])
    odds = score.sigmoid()
    for name in ("non_saturating", "saturating"):
        torch.testing.assert_close(GAN_LOSSES[name].real(score), -odds.log())
        torch.testing.assert_close(GAN_LOSSES[name].fake(score), -(1 - odds).log())
    torch.testing.assert_close(GAN_LOSSES["non_saturating"].generator(score), -odds.log())
    torch.testing.assert_close(GAN_LOSSES["saturating"].generator(score), (1 - odds).log())
    torch.testing.assert_close(GAN_LOSSES["wasserstein"].real(score) + GAN_LOSSES["wasserstein"].fake(score), torch.zeros(3))
    torch.testing.assert_close(GAN_LOSSES["wasserstein"].generator(score), -score)
    torch.testing.assert_close(GAN_LOSSES["hinge"].real(score), torch.tensor([3.0, 1.0, 0.0]))
    torch.testing.assert_close(GAN_LOSSES["least_squares"].fake(score), score.square())
    smoothed = gan_loss("non_saturating", (0.1, 0.0))
    torch.testing.assert_close(smoothed.real(score), -0.9 * odds.log() - 0.1 * (1 - odds).log())
    torch.testing.assert_close(smoothed.fake(score), GAN_LOSSES["non_saturating"].fake(score))


def test_patches_are_averaged_and_features_compared_by_their_means() -> None:
    torch.testing.assert_close(per_example(torch.tensor([[[1.0, 3.0]], [[5.0, 5.0]]])), torch.tensor([2.0, 5.0]))
    real, fake = torch.rand(6, 3), torch.rand(4, 3)
    torch.testing.assert_close(feature_matching_loss(real, fake), (real.mean(0) - fake.mean(0)).square().sum())
    assert float(feature_matching_loss(real, real.flip(0))) < 1e-12
