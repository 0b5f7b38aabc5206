"""M2's bound against sums over classes written out, and its relaxed form against the exact one."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from weft.core import random
from weft.core.errors import ConfigError
from weft.data.base import UNLABELLED, Batch
from weft.models.generative.conditional_vae import SemiSupervisedVAE, SemiSupervisedVAEConfig
from weft.objectives.generative.elbo import gaussian_kl
from weft.objectives.generative.semi_supervised_elbo import SemiSupervisedELBOConfig, by_class, entropy

KEYS = random.keys(1, torch.arange(20_000))


def model() -> SemiSupervisedVAE:
    torch.manual_seed(0)
    return SemiSupervisedVAEConfig(features=6, latent=2, hidden=(8,), classes=3).build()


def batch(label: list[int]) -> Batch:
    x = random.uniform(KEYS[: len(label)], 6).round()
    return {"image": x, "label": torch.tensor(label), "key": KEYS[: len(label)]}


def one_loss(vae: SemiSupervisedVAE, x: Tensor, key: Tensor, label: int) -> Tensor:
    """L(x, y) of one example, written out."""
    y = torch.zeros(1, 3)
    y[0, label] = 1
    mean, log_variance = vae.encode(x[None], y)
    z = mean + (0.5 * log_variance).exp() * random.normal(random.fold(key[None], "code"), 2)
    logits = vae.decoder(torch.cat((z, y), 1))
    likelihood = -torch.nn.functional.binary_cross_entropy_with_logits(logits, x[None], reduction="sum")
    return -likelihood + gaussian_kl(mean, log_variance).sum() - math.log(1 / 3)


def test_the_bound_is_the_sum_over_classes_less_the_entropy() -> None:
    vae, data = model(), batch([2, UNLABELLED, 0, UNLABELLED, UNLABELLED])
    expected = torch.zeros(())
    for x, label, key in zip(data["image"], data["label"].tolist(), data["key"], strict=True):
        if label != UNLABELLED:
            expected = expected + one_loss(vae, x, key, label)
            continue
        q = vae.classify(x[None]).softmax(-1)[0]
        expected = expected + sum(q[y] * (one_loss(vae, x, key, y) + q[y].log()) for y in range(3))
    objective = SemiSupervisedELBOConfig(classification_weight=5.0).build()
    terms, counts = objective(vae, data, ""), objective.counts(data)
    torch.testing.assert_close(terms.sums["bound"], expected, rtol=1e-5, atol=1e-5)
    assert {name: float(value) for name, value in counts.items()} == {"bound": 5, "label": 2, "accuracy": 2}
    known = data["label"] != UNLABELLED
    cross = torch.nn.functional.cross_entropy(vae.classify(data["image"])[known], data["label"][known], reduction="sum")
    torch.testing.assert_close(terms.sums["label"], cross)
    assert objective.weights == {"label": 5.0}


def test_the_bound_lies_below_that_of_any_single_class() -> None:
    """U(x) is the loss for p(x), which holds all classes: at the best q(y | x) it is -log of the sum of exp(-L(x, y))."""
    vae, data = model(), batch([UNLABELLED] * 4)
    each = by_class(vae, data["image"], data["key"]).detach()
    best = -(-each).logsumexp(1)
    found = SemiSupervisedELBOConfig().build()._summed(vae, data["image"], -each, torch.zeros(4, 3), data["key"]).detach()
    torch.testing.assert_close(found, best, rtol=1e-5, atol=1e-5)
    other = SemiSupervisedELBOConfig().build()._summed(vae, data["image"], torch.randn(4, 3), torch.zeros(4, 3), data["key"]).detach()
    assert (other >= best - 1e-4).all()


def test_a_relaxed_class_is_close_to_the_sum_and_exact_where_the_class_is_known() -> None:
    vae = model()
    number = 4000
    data = {"image": batch([0])["image"].expand(number, -1), "label": torch.full((number,), UNLABELLED), "key": KEYS[:number]}
    exact, relaxed = (
        SemiSupervisedELBOConfig(classes_by=how, temperature=0.1).build()(vae, data, "").sums["bound"].detach() / number
        for how in ("sum", "gumbel")
    )
    assert float(relaxed) == pytest.approx(float(exact), abs=0.1)
    known = batch([0, 1, 2])
    sums = [SemiSupervisedELBOConfig(classes_by=how).build()(vae, known, "").sums["bound"] for how in ("sum", "gumbel")]
    torch.testing.assert_close(sums[0], sums[1])
    relaxed_loss = SemiSupervisedELBOConfig(classes_by="gumbel").build()(vae, batch([UNLABELLED] * 4), "").sums["bound"]
    gradient = torch.autograd.grad(relaxed_loss, list(vae.classifier.parameters()))
    assert all(torch.isfinite(part).all() for part in gradient)
    assert any(part.abs().sum() > 0 for part in gradient)


def test_the_entropy_of_logits() -> None:
    assert float(entropy(torch.zeros(1, 4))) == pytest.approx(math.log(4))
    assert float(entropy(torch.tensor([[1000.0, 0.0]]))) == pytest.approx(0.0)


@pytest.mark.parametrize("wrong", [{"classification_weight": -1.0}, {"temperature": 0.0}])
def test_wrong_settings_are_named(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=f"--objective.{next(iter(wrong))}"):
        SemiSupervisedELBOConfig(**wrong).build()  # type: ignore[arg-type]
