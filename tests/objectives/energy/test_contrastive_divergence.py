from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from weft.core import random
from weft.core.errors import ConfigError
from weft.data.base import DataLoader, TensorDataset
from weft.models.energy.rbm import RBM, RBMConfig
from weft.objectives.energy.contrastive_divergence import ContrastiveDivergence, ContrastiveDivergenceConfig
from weft.training.execution import choose
from weft.training.hooks import evaluate
from weft.training.optimizer.settings import SGD
from weft.training.settings import Train
from weft.training.trainer import Trainer

X, H = 5, 3


def rbm(scale: float = 0.7) -> RBM:
    torch.manual_seed(3)
    model = RBM(RBMConfig(features=X, hidden=H))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=scale)
    return model


def data(size: int = 40) -> Tensor:
    return (random.uniform(torch.arange(size), X) < torch.tensor([0.9, 0.8, 0.5, 0.2, 0.1])).float()


def every_state() -> Tensor:
    return torch.tensor(list(itertools.product([0.0, 1.0], repeat=X)))


def likelihood_gradient(model: RBM, v: Tensor) -> dict[str, Tensor]:
    """Of the mean -log p(v), the normaliser by enumeration."""
    loss = model.free_energy(v).mean() + (-model.free_energy(every_state().to(v.dtype))).logsumexp(0)
    return dict(zip(dict(model.named_parameters()), torch.autograd.grad(loss, list(model.parameters())), strict=True))


def gradient(objective: ContrastiveDivergence, model: RBM, v: Tensor, seed: int = 0) -> dict[str, Tensor]:
    """Of the loss as the trainer forms it."""
    batch = {"image": v, "key": random.keys(seed, torch.arange(len(v)))}
    counts, terms = objective.counts(batch), objective(model, batch, "")
    loss = torch.stack([terms.sums[name] / counts[name] for name in terms.sums]).sum()
    return dict(zip(dict(model.named_parameters()), torch.autograd.grad(loss, list(model.parameters())), strict=True))


def test_with_the_model_as_the_chain_the_gradient_is_that_of_the_likelihood() -> None:
    """Particles in exact proportion to p(v): positive minus negative phase is the gradient by enumeration."""
    model, v = rbm().double(), data().double()
    p = (-model.free_energy(every_state().double())).softmax(0)
    number = (p * 200_000).round().long()
    objective = ContrastiveDivergenceConfig(particles=int(number.sum()), features=X).build().double()
    objective.particles.copy_(every_state().repeat_interleave(number, 0))
    expected = likelihood_gradient(model, v)
    for name, found in gradient(objective, model, v).items():
        torch.testing.assert_close(found, expected[name], atol=1e-4, rtol=0)  # 32 counts rounded to 1 / 200,000


def test_the_gradient_is_contrastive_divergence_by_hand() -> None:
    model, v = rbm(), data()
    objective = ContrastiveDivergenceConfig(sweeps=3).build()
    chain = model.gibbs(v, random.fold(random.keys(0, torch.arange(len(v))), "chain"), 3)
    positive, negative = model.hidden_given_visible(v), model.hidden_given_visible(chain)
    expected = {
        "weight": -(v.mT @ positive - chain.mT @ negative) / len(v),
        "visible_bias": -(v - chain).mean(0),
        "hidden_bias": -(positive - negative).mean(0),
    }
    for name, found in gradient(objective, model, v).items():
        torch.testing.assert_close(found, expected[name], atol=1e-6, rtol=1e-5)


def test_a_long_chain_approaches_the_likelihood_gradient_and_a_short_one_does_not() -> None:
    model, v = rbm(1.0), data().repeat(500, 1)
    expected = likelihood_gradient(model, v)

    def error(sweeps: int) -> float:
        found = gradient(ContrastiveDivergenceConfig(sweeps=sweeps).build(), model, v)
        return max(float((found[name] - expected[name]).abs().max()) for name in found)

    assert error(50) < 4 * 0.5 / len(v) ** 0.5  # four standard errors of the mean of a binary variable
    assert error(1) > 4 * error(50)


def trainer(objective: ContrastiveDivergence, model: RBM, micro_batch: int = 0) -> Trainer:
    settings = Train(steps=10, batch=11, micro_batch=micro_batch, device="cpu")
    source = DataLoader(TensorDataset({"image": data()}), 1, torch.device("cpu"))
    return Trainer(model, objective, source, settings, SGD(lr=0.1), choose(settings, model, objective))


def persistent(sweeps: int = 2) -> ContrastiveDivergence:
    torch.manual_seed(5)
    return ContrastiveDivergenceConfig(sweeps=sweeps, particles=7, features=X).build()


def test_the_chain_moves_once_a_step_under_the_new_weights() -> None:
    model, objective = rbm(), persistent()
    run = trainer(objective, model, micro_batch=4)
    for step in range(1, 4):
        before = objective.particles.clone()
        run.run_step()
        expected = model.gibbs(before, random.fold(objective.origin + step, "chain"), 2)
        assert int(objective.clock) == step
        assert torch.equal(objective.particles, expected)


def test_neither_evaluation_nor_a_forward_moves_the_chain() -> None:
    model, objective = rbm(), persistent()
    before = {name: value.clone() for name, value in objective.state_dict().items()}
    source = DataLoader(TensorDataset({"image": data()}), 1, torch.device("cpu"), shuffle=False)
    report = evaluate(model, objective, source, 40, 16)
    assert {"loss", "data", "chain", "pseudo_log_likelihood", "reconstruction_error"} <= report.keys()
    assert all(torch.equal(value, before[name]) for name, value in objective.state_dict().items())


@pytest.mark.parametrize("particles", [0, 7])
def test_ragged_micro_batches_equal_the_big_batch(particles: int) -> None:
    weights = []
    for micro in (0, 4):
        torch.manual_seed(5)
        model, objective = rbm(), ContrastiveDivergenceConfig(particles=particles, features=X).build()
        run = trainer(objective, model, micro)
        for _ in range(5):
            run.run_step()
        weights.append(torch.cat([p.flatten() for p in model.parameters()]))
    torch.testing.assert_close(weights[0], weights[1], atol=1e-6, rtol=0)


def test_the_chain_continues_from_its_saved_state() -> None:
    model, objective = rbm(), persistent()
    objective.after_update(model, "")
    other = persistent()
    other.load_state_dict(objective.state_dict())
    for chain in (objective, other):
        chain.after_update(model, "")
    assert torch.equal(objective.particles, other.particles)


def test_energies_are_not_computed_in_bf16() -> None:
    objective = ContrastiveDivergenceConfig().build()
    assert choose(Train(device="cpu"), rbm(), objective).precision == "fp32"


def test_settings_that_cannot_work_are_refused() -> None:
    with pytest.raises(ConfigError, match="sweep"):
        ContrastiveDivergenceConfig(sweeps=0).build()
