"""The evidence lower bound on a model whose log p(x) is known, x = W z + b + noise, and its parts against Monte Carlo."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import MultivariateNormal, Normal, kl_divergence

from weft.core import random
from weft.core.errors import CapabilityError, ConfigError
from weft.data.base import UNLABELLED, Batch
from weft.models.generative.conditional_vae import ConditionalVAEConfig
from weft.models.generative.vae import VAE, VAEConfig
from weft.nn.one_hot import one_hot
from weft.objectives.generative.elbo import ELBOConfig, gaussian_kl, importance_bound, negative_bound, outside

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
    objective = ELBOConfig(classification_weight=2.0, beta=0.5).build()
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
        ELBOConfig(classification_weight=1.0).build()(
            model, {"image": torch.rand(4, 6), "label": torch.zeros(4).long(), "key": KEYS[:4]}, ""
        )


@pytest.mark.parametrize("seed", [0, 1])
def test_the_importance_weighted_bound_rises_to_the_evidence(seed: int) -> None:
    """With one code it is the bound; with more it comes closer to log p(x), from below, and arrives."""
    case, key = linear(seed), KEYS[:2000]
    x = case.x.expand(len(key), -1)
    found = {samples: importance_bound(case.model, x, key, samples) for samples in (1, 4, 32, 200)}
    means = [float(value.mean()) for value in found.values()]
    errors = [4 * float(value.std()) / math.sqrt(len(key)) for value in found.values()]
    assert means[0] == pytest.approx(case.second_form(), abs=errors[0])
    assert means == sorted(means)
    assert means[-1] < case.log_evidence() + errors[-1]
    assert means[-1] == pytest.approx(case.log_evidence(), abs=0.1)


def test_one_code_of_the_importance_weighted_bound_is_the_objectives() -> None:
    """Without its KL in closed form: the same code gives log p(x | z) + log p(z) - log q(z | x)."""
    case, key = linear(2), KEYS[:3]
    x = case.x.expand(3, -1)
    mean, log_variance = case.model.encode(x)
    z = mean + (0.5 * log_variance).exp() * random.normal(random.fold(random.fold(key, 0), "code"), 2)
    expected = case.model.decode(z).log_prob(x).sum(1) + Normal(0.0, 1.0).log_prob(z).sum(1)
    expected -= Normal(mean, (0.5 * log_variance).exp()).log_prob(z).sum(1)
    torch.testing.assert_close(importance_bound(case.model, x, key, 1), expected.double(), rtol=1e-5, atol=1e-4)


def test_weight_1_of_the_kl_is_the_bound_itself() -> None:
    case, key = linear(1), KEYS[:16]
    batch = {"image": case.x.expand(16, -1), "key": key}
    plain, half = ELBOConfig().build(), ELBOConfig(beta=0.5).build()
    assert (plain.weights["kl"], half.weights["kl"]) == (1.0, 0.5)
    sums = plain(case.model, batch, "").sums
    assert float(sum(sums.values()).detach()) == pytest.approx(
        float(negative_bound(case.model, batch["image"], key).sum().detach()), rel=1e-5
    )
    assert all(torch.equal(value, half(case.model, batch, "").sums[name]) for name, value in sums.items())


def test_a_conditional_model_is_told_the_class() -> None:
    torch.manual_seed(0)
    model = ConditionalVAEConfig(features=6, latent=2, hidden=(8,), classes=3).build()
    label, x, key = torch.tensor([0, 1, 2, UNLABELLED]), torch.rand(4, 6).round(), KEYS[:4]
    sums = ELBOConfig().build()(model, {"image": x, "label": label, "key": key}, "").sums
    expected = negative_bound(model, x, key, one_hot(label, 3)).sum()
    assert float(sum(sums.values()).detach()) == pytest.approx(float(expected.detach()), rel=1e-5)
    other = ELBOConfig().build()(model, {"image": x, "label": (label + 1) % 3, "key": key}, "").sums
    assert not torch.equal(sums["kl"], other["kl"])


def test_a_square_is_hidden_somewhere_else_for_every_key() -> None:
    known = outside(KEYS[:200], (2, 6, 8), 3)
    assert known.shape == (200, 2, 6, 8)
    assert ((~known).sum((1, 2, 3)) == 2 * 9).all()
    assert torch.equal(known[:, 0], known[:, 1])
    assert (~known).any(0).all()
    assert torch.equal(known[5:9], outside(KEYS[5:9], (2, 6, 8), 3))


def test_what_is_hidden_does_not_reach_the_code_but_must_be_made() -> None:
    torch.manual_seed(0)
    model = VAEConfig(features=48, image=(1, 6, 8), latent=2, hidden=(8,)).build()
    objective = ELBOConfig(mask_size=0.5, image=(1, 6, 8)).build()
    x, key = torch.rand(5, 1, 6, 8), KEYS[:5]
    known = outside(key, (1, 6, 8), 3)
    other = torch.where(known, x, 1 - x)
    first, second = (objective(model, {"image": image, "key": key}, "") for image in (x, other))
    assert torch.equal(first.sums["kl"], second.sums["kl"])
    assert not torch.equal(first.sums["reconstruction"], second.sums["reconstruction"])
    assert float(objective.counts({"image": x, "key": key})["hidden_error"]) == 5 * 9
    assert first.metrics["hidden_error"] != second.metrics["hidden_error"]
    completed = model.inpaint(x, known)
    assert torch.equal(completed[known], x[known])
    torch.testing.assert_close(completed, model.inpaint(other, known))
    with pytest.raises(ConfigError, match="is for images"):
        ELBOConfig(mask_size=0.5).build()
    with pytest.raises(ConfigError, match=r"--objective\.mask_size"):
        ELBOConfig(mask_size=1.5, image=(1, 6, 8)).build()
