"""The evidence lower bound on a model whose log p(x) is known, x = W z + b + noise, and its parts against Monte Carlo."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import MultivariateNormal, Normal, kl_divergence

from weft import random
from weft.data.base import UNLABELLED, Batch
from weft.errors import CapabilityError
from weft.models.vae import VAE, VAEConfig
from weft.objectives.elbo import ELBOConfig, gaussian_kl

KEYS = random.keys(1, torch.arange(40_000))
NOISE = 0.7
LINEAR = VAEConfig(features=5, latent=2, hidden=(), decoder="gaussian", noise=NOISE)


@dataclass
class Linear:
    """A VAE without hidden layers and everything about it that has a closed form, in float64."""

    model: VAE
    x: Tensor

    @property
    def w(self) -> Tensor:
        return self.model.decoder.head.weight.detach().double()

    @property
    def b(self) -> Tensor:
        return self.model.decoder.head.bias.detach().double()

    @property
    def code(self) -> tuple[Tensor, Tensor]:
        """Mean and variance of q(z | x), each (Z,)."""
        mean, log_variance = self.model.encode(self.x[None])
        return mean[0].detach().double(), log_variance[0].detach().double().exp()

    def log_evidence(self) -> float:
        covariance = self.w @ self.w.T + NOISE**2 * torch.eye(5, dtype=torch.float64)
        return float(MultivariateNormal(self.b, covariance).log_prob(self.x.double()))

    def posterior(self) -> MultivariateNormal:
        """p(z | x)."""
        precision = torch.eye(2, dtype=torch.float64) + self.w.T @ self.w / NOISE**2
        mean = torch.linalg.solve(precision, self.w.T @ (self.x.double() - self.b) / NOISE**2)
        return MultivariateNormal(mean, precision_matrix=precision)

    def first_form(self) -> float:
        """log p(x) - KL(q(z | x) || p(z | x))."""
        mean, variance = self.code
        return self.log_evidence() - float(kl_divergence(MultivariateNormal(mean, variance.diag()), self.posterior()))

    def second_form(self) -> float:
        """E_q log p(x | z) - KL(q(z | x) || p(z)): the mean of a square is the square of the mean plus the variance."""
        mean, variance = self.code
        at_mean = Normal(self.w @ mean + self.b, NOISE).log_prob(self.x.double()).sum()
        expected = at_mean - (self.w.square() @ variance).sum() / (2 * NOISE**2)
        return float(expected - gaussian_kl(mean, variance.log()))

    def estimate(self) -> float:
        """The objective's own number, averaged over many codes."""
        batch = {"image": self.x.expand(len(KEYS), -1), "key": KEYS}
        objective = ELBOConfig().build()
        terms, counts = objective(self.model, batch, ""), objective.counts(batch)
        return -sum(float(value.detach() / counts[name]) for name, value in terms.sums.items())


def linear(seed: int) -> Linear:
    torch.manual_seed(seed)
    model = LINEAR.build()
    nn.init.normal_(model.decoder.head.bias)
    return Linear(model, torch.randn(5))


@pytest.mark.parametrize("seed", range(5))
def test_both_forms_agree_with_each_other_and_with_the_objective(seed: int) -> None:
    case = linear(seed)
    assert case.first_form() == pytest.approx(case.second_form(), abs=1e-5)
    assert case.estimate() == pytest.approx(case.second_form(), abs=0.05)
    assert case.second_form() < case.log_evidence()


def test_the_bound_is_the_evidence_where_q_is_the_posterior() -> None:
    """With orthogonal columns of W the posterior has a diagonal covariance, which the encoder can represent."""
    case = linear(0)
    head = case.model.encoder.head
    with torch.no_grad():
        case.model.decoder.head.weight.copy_(torch.linalg.qr(torch.randn(5, 2)).Q * torch.tensor([2.0, 0.5]))
        variance = 1 / (1 + case.w.square().sum(0) / NOISE**2)
        head.weight[:2] = (variance[:, None] * case.w.T / NOISE**2).float()
        head.bias[:2] = -head.weight[:2] @ case.b.float()
        head.weight[2:], head.bias[2:] = 0.0, variance.log().float()
    assert case.second_form() == pytest.approx(case.log_evidence(), abs=1e-5)
    assert case.first_form() == pytest.approx(case.log_evidence(), abs=1e-5)
    assert case.estimate() == pytest.approx(case.log_evidence(), abs=0.05)


def test_the_kl_agrees_with_monte_carlo() -> None:
    mean, log_variance = torch.tensor([0.7, -1.2, 0.0]), torch.tensor([-1.0, 0.5, 0.0])
    z = mean + (0.5 * log_variance).exp() * random.normal(KEYS, 3)
    q, p = Normal(mean, (0.5 * log_variance).exp()), Normal(torch.zeros(3), torch.ones(3))
    estimate = (q.log_prob(z) - p.log_prob(z)).sum(1)
    closed = gaussian_kl(mean, log_variance)
    assert float(closed) == pytest.approx(float(estimate.mean()), abs=4 * float(estimate.std()) / math.sqrt(len(z)))
    assert float(closed) == pytest.approx(float(kl_divergence(q, p).sum()), abs=1e-6)
    assert gaussian_kl(torch.zeros(3), torch.zeros(3)) == 0


class Watched(nn.Module):
    """Gives a fixed code and keeps the z it is asked to decode."""

    def __init__(self, mean: Tensor, log_variance: Tensor):
        super().__init__()
        self.code = mean, log_variance

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_variance = self.code
        return mean.expand(len(x), -1), log_variance.expand(len(x), -1)

    def decode(self, z: Tensor) -> Normal:
        self.z = z
        return Normal(z, 1.0, validate_args=False)


def test_codes_have_the_variance_that_the_encoder_says() -> None:
    """The encoder gives log variances: z = mean + exp(log variance / 2) eps."""
    model = Watched(torch.tensor([1.0, -2.0]), torch.tensor([4.0, 0.25]).log())
    ELBOConfig().build()(model, {"image": torch.zeros(len(KEYS), 2), "key": KEYS}, "")
    torch.testing.assert_close(model.z.mean(0), torch.tensor([1.0, -2.0]), atol=0.04, rtol=0)
    torch.testing.assert_close(model.z.var(0), torch.tensor([4.0, 0.25]), atol=0, rtol=0.03)


def reconstruction(model: VAE, x: Tensor, key: Tensor) -> Tensor:
    terms = ELBOConfig().build()(model, {"image": x.expand(len(key), -1), "key": key}, "")
    loss: Tensor = terms.sums["reconstruction"] / len(key)
    return loss


def test_the_gradient_through_the_code_equals_finite_differences() -> None:
    case, key, step = linear(3), KEYS[:64], 0.05
    bias = case.model.encoder.head.bias
    gradient = torch.autograd.grad(reconstruction(case.model, case.x, key), bias)[0]
    for place in range(4):
        values = []
        for sign in (1, -1):
            with torch.no_grad():
                bias[place] += sign * step
                values.append(float(reconstruction(case.model, case.x, key)))
                bias[place] -= sign * step
        assert (values[0] - values[1]) / (2 * step) == pytest.approx(float(gradient[place]), rel=2e-3, abs=2e-3)


def test_the_score_function_gives_the_same_gradient_with_more_variance() -> None:
    """d/dmean E f(z) is E f'(z), and also E f(z) (z - mean) / variance; f = -log p(x | z)."""
    case = linear(4)
    mean, variance = (value.float() for value in case.code)
    z = (mean + variance.sqrt() * random.normal(KEYS, 2)).requires_grad_()
    f = -case.model.decode(z).log_prob(case.x).sum(1)
    path = torch.autograd.grad(f.sum(), z)[0]
    score = (f[:, None] * (z - mean) / variance).detach()
    exact = (case.w.T @ (case.w @ mean.double() + case.b - case.x.double()) / NOISE**2).float()
    torch.testing.assert_close(path.mean(0), exact, atol=0.05, rtol=0.02)
    torch.testing.assert_close(score.mean(0), exact, atol=0.5, rtol=0.1)
    assert (score.var(0) > 3 * path.var(0)).all()


def semi_supervised(label: Tensor) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    torch.manual_seed(0)
    model = VAEConfig(features=6, latent=2, hidden=(8,), classifier=True, classes=3).build()
    batch: Batch = {"image": torch.rand(len(label), 6).round(), "label": label, "key": KEYS[: len(label)]}
    objective = ELBOConfig(label=2.0, beta=0.5).build()
    assert objective.weights == {"kl": 0.5, "label": 2.0}
    return objective(model, batch, "").sums, objective.counts(batch)


@pytest.mark.parametrize(("label", "known"), [([0, 1, 2, 0], 4), ([0, UNLABELLED, 2, UNLABELLED], 2), ([UNLABELLED] * 4, 0)])
def test_labelled_mixed_and_unlabelled_batches(label: list[int], known: int) -> None:
    sums, counts = semi_supervised(torch.tensor(label))
    assert {name: float(value) for name, value in counts.items()} == {"reconstruction": 4, "kl": 4, "label": known, "accuracy": known}
    assert (sums["label"] > 0) == (known > 0)
    assert torch.isfinite(torch.stack(list(sums.values()))).all()


def test_labels_need_a_classifier() -> None:
    model = VAEConfig(features=6, latent=2, hidden=(8,)).build()
    with pytest.raises(CapabilityError):
        ELBOConfig(label=1.0).build()(model, {"image": torch.rand(4, 6), "label": torch.zeros(4).long(), "key": KEYS[:4]}, "")
