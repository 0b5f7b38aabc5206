"""The two phases against the exact gradient of the likelihood."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from weft.core import random
from weft.core.errors import ConfigError
from weft.data.base import DataLoader, TensorDataset
from weft.models.energy.boltzmann import Boltzmann, BoltzmannConfig
from weft.models.energy.energy import every_state
from weft.objectives.energy.boltzmann_learning import BoltzmannLearning, BoltzmannLearningConfig
from weft.training.execution import choose
from weft.training.hooks import evaluate
from weft.training.optimizer.settings import SGD
from weft.training.settings import Train
from weft.training.trainer import Trainer

Gradient = dict[str, Tensor]


def machine(features: int, hidden: int, scale: float = 0.5) -> Boltzmann:
    torch.manual_seed(3)
    model = Boltzmann(BoltzmannConfig(features=features, hidden=hidden))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=scale)
    return model


def data(features: int, size: int = 50) -> Tensor:
    """Pairs of units that agree more often than not."""
    noise = random.uniform(random.keys(5, torch.arange(size)), 2 * features)
    v = (noise[:, :features] < 0.5).float()
    agree = noise[:, features:] < 0.8
    return torch.where(agree, v.repeat_interleave(2, 1)[:, :features], v)


def minus_log_likelihood(model: Boltzmann, v: Tensor) -> Tensor:
    return model.free_energy(v).mean() + model.log_partition()


def exact(model: Boltzmann, v: Tensor) -> Gradient:
    loss = minus_log_likelihood(model, v)
    return dict(zip(("weight", "bias"), torch.autograd.grad(loss, [model.weight, model.bias]), strict=True))


def estimated(objective: BoltzmannLearning, model: Boltzmann, v: Tensor, seed: int = 0) -> Gradient:
    """The gradient of the loss as the trainer forms it."""
    batch = {"image": v, "key": random.keys(seed, torch.arange(len(v)))}
    counts, terms = objective.counts(batch), objective(model, batch, "")
    loss = torch.stack([terms.sums[name] / counts[name] for name in terms.sums]).sum()
    return dict(zip(("weight", "bias"), torch.autograd.grad(loss, [model.weight, model.bias]), strict=True))


def slope(features: int, hidden: int, v: Tensor, i: int, j: int, step: float = 1e-5) -> float:
    """Of -log p(v) by one coupling, from two machines on either side."""
    losses = []
    for sign in (1, -1):
        moved = machine(features, hidden).double()
        with torch.no_grad():
            moved.weight[i, j] += sign * step
        losses.append(float(minus_log_likelihood(moved, v).detach()))
    return (losses[0] - losses[1]) / (2 * step)


def test_the_exact_gradient_is_the_difference_of_outer_products_and_of_finite_differences() -> None:
    """d(-log p) / dw of a pair is E_model[s s'] - E_data[s s'], without a factor 1/2."""
    model, v = machine(6, 0).double(), data(6).double()
    states = every_state(6, like=v)
    p = (-model.energy(states)).softmax(0)
    difference = states.mT @ (p.unsqueeze(1) * states) - v.mT @ v / len(v)
    found = exact(model, v)
    torch.testing.assert_close(found["weight"], difference.triu(1))
    torch.testing.assert_close(found["bias"], p @ states - v.mean(0))
    for i, j in ((0, 3), (2, 5)):
        assert slope(6, 0, v, i, j) == pytest.approx(float(found["weight"][i, j]), abs=1e-8)


def test_with_hidden_units_the_positive_phase_is_clamped_at_the_data() -> None:
    """Of ten units, four hidden: E over p(h | v) of each example less E of the model, by enumeration, and finite differences."""
    model, v = machine(6, 4).double(), data(6).double()
    states, hidden = every_state(10, like=v), every_state(4, like=v)
    p = (-model.energy(states)).softmax(0).detach()
    free = states.mT @ (p.unsqueeze(1) * states)
    clamped = torch.zeros(10, 10, dtype=v.dtype)
    for row in v:
        joint = torch.cat([row.expand(16, -1), hidden], dim=1)
        posterior = (-model.energy(joint)).softmax(0).detach()
        clamped += joint.mT @ (posterior.unsqueeze(1) * joint) / len(v)
    found = exact(model, v)
    torch.testing.assert_close(found["weight"], (free - clamped).triu(1))
    torch.testing.assert_close(found["bias"], (free - clamped).diagonal())
    for i, j in ((0, 3), (2, 7), (6, 9)):  # two visible units, one of each, two hidden ones
        assert slope(6, 4, v, i, j) == pytest.approx(float(found["weight"][i, j]), abs=1e-8)


@pytest.mark.parametrize(("features", "hidden"), [(12, 0), (6, 4)])
def test_the_estimated_gradient_is_the_exact_one_within_its_error(features: int, hidden: int) -> None:
    """With many chains near equilibrium; hidden units only come out right with the positive phase clamped at the data."""
    model, copies, chains = machine(features, hidden), 400, 20_000
    v = data(features)
    objective = BoltzmannLearningConfig(particles=chains, features=features, hidden=hidden, clamped_sweeps=15, sweeps=25).build()
    objective.after_update(model, "")
    wanted, found = exact(model, v), estimated(objective, model, v.repeat(copies, 1))
    allowed = 4.5 * 0.5 * (1 / chains + 1 / (copies * len(v))) ** 0.5  # of a difference of two means of binary variables
    for name, value in wanted.items():
        assert float((found[name] - value).abs().max()) < allowed, name
    if hidden:
        noise = (random.uniform(random.keys(9, torch.arange(len(v))), hidden) < 0.5).float()
        unclamped = torch.cat([v, noise], dim=1)
        wrong = torch.autograd.grad(model.energy(unclamped).mean() + model.log_partition(), [model.weight])[0]
        assert float((wrong - wanted["weight"]).abs().max()) > 3 * allowed


@pytest.mark.parametrize(("features", "hidden"), [(6, 0), (6, 4)])
def test_training_raises_the_likelihood(features: int, hidden: int) -> None:
    torch.manual_seed(0)
    model, v = machine(features, hidden, 0.1), data(features, 200)
    objective = BoltzmannLearningConfig(particles=200, features=features, hidden=hidden).build()
    settings = Train(steps=200, batch=200, device="cpu")
    source = DataLoader(TensorDataset({"image": v}), 1, torch.device("cpu"))
    before = float(-minus_log_likelihood(model, v).detach())
    Trainer(model, objective, source, settings, SGD(lr=0.2), choose(settings, model, objective)).fit()
    after = float(-minus_log_likelihood(model, v).detach())
    independent = v.mean(0).clamp(1e-3, 1 - 1e-3)
    assert after > before + 0.3
    assert after > float((v * independent.log() + (1 - v) * (1 - independent).log()).sum(1).mean()) + 0.2


def test_chains_move_after_updates_only_and_by_their_own_clock() -> None:
    model = machine(5, 2)
    torch.manual_seed(1)
    objective = BoltzmannLearningConfig(particles=7, features=5, hidden=2).build()
    before = {name: value.clone() for name, value in objective.state_dict().items()}
    source = DataLoader(TensorDataset({"image": data(5)}), 1, torch.device("cpu"), shuffle=False)
    assert {"data", "chain", "completion_error"} <= evaluate(model, objective, source, 20, 8).keys()
    assert all(torch.equal(value, before[name]) for name, value in objective.state_dict().items())
    objective.after_update(model, "")
    expected = model.gibbs(before["particles"], random.fold(objective.origin + 1, "chain"), 1)
    assert torch.equal(objective.particles, expected)
    assert int(objective.clock) == 1


def test_a_visible_machine_reports_its_pseudo_likelihood() -> None:
    objective = BoltzmannLearningConfig(features=5).build()
    batch = {"image": data(5), "key": torch.arange(50)}
    assert {"completion_error", "pseudo_log_likelihood"} == objective.measure(machine(5, 0), batch).keys()


def test_settings_that_cannot_work_are_refused() -> None:
    for name in ("clamped_sweeps", "sweeps", "particles"):
        with pytest.raises(ConfigError, match=name):
            BoltzmannLearningConfig(features=3, **{name: 0}).build()
    objective = BoltzmannLearningConfig(features=5, hidden=1).build()
    with pytest.raises(ConfigError, match="2 hidden units"):
        objective(machine(5, 2), {"image": data(5), "key": torch.arange(50)}, "")
