"""Optimisers against hand calculation and torch's own, decay groups, clipping, regularisation, state."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.training import toys
from weft.core import registry
from weft.core.errors import ConfigError
from weft.models.language.gpt import GPTConfig
from weft.training.optimizer.muon import MuonOptimizer, orthogonalise
from weft.training.optimizer.settings import SGD, Adam, AdamW, Momentum, Muon, OptimConfig, RMSProp
from weft.training.optimizer.updater import Updater, parameter_kinds
from weft.training.parallel.team import Team
from weft.training.schedule import Schedule


def updater(config: OptimConfig, model: nn.Module) -> Updater:
    return Updater(config, [("", model)], halt=True)


def steps(model: nn.Module, config: OptimConfig, gradients: list[list[Tensor]]) -> list[list[Tensor]]:
    """Weights after each update with the given gradients."""
    update, history = updater(config, model), []
    for number, given in enumerate(gradients, start=1):
        update.set_rate(number, len(gradients))
        for parameter, gradient in zip(model.parameters(), given, strict=True):
            parameter.grad = gradient.clone()
        update.step()
        history.append([p.detach().clone() for p in model.parameters()])
    return history


def torch_steps(model: nn.Module, optimizer: torch.optim.Optimizer, gradients: list[list[Tensor]]) -> list[list[Tensor]]:
    history = []
    for given in gradients:
        for parameter, gradient in zip(model.parameters(), given, strict=True):
            parameter.grad = gradient.clone()
        optimizer.step()
        history.append([p.detach().clone() for p in model.parameters()])
    return history


def network(dtype: torch.dtype = torch.float64) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 7), nn.LayerNorm(7), nn.Linear(7, 3, bias=False)).to(dtype)


def noise(model: nn.Module, number: int) -> list[list[Tensor]]:
    generator = torch.Generator().manual_seed(1)
    return [[torch.randn(p.shape, generator=generator, dtype=p.dtype) for p in model.parameters()] for _ in range(number)]


def assert_same(first: list[list[Tensor]], second: list[list[Tensor]], tolerance: float) -> None:
    for ours, theirs in zip(first, second, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, b, atol=tolerance, rtol=tolerance)


# -- update rules ---------------------------------------------------------------------------------------------------------


def test_sgd_steps_against_the_gradient() -> None:
    model = toys.Point(torch.tensor([1.0, 2.0]))
    history = steps(model, SGD(lr=0.5), [[torch.tensor([1.0, -1.0])], [torch.tensor([2.0, 0.0])]])
    assert [h[0].tolist() for h in history] == [[0.5, 2.5], [-0.5, 2.5]]


def test_momentum_follows_the_hand_calculation() -> None:
    """v <- 0.9 v + lr g, x <- x - v, with g = 1, 2, -1 and lr = 0.1: v = 0.1, 0.29, 0.161."""
    model = toys.Point(torch.tensor([1.0], dtype=torch.float64))
    history = steps(model, Momentum(lr=0.1), [[torch.tensor([g], dtype=torch.float64)] for g in (1.0, 2.0, -1.0)])
    assert [float(h[0]) for h in history] == pytest.approx([0.9, 0.61, 0.449], abs=1e-12)


def test_momentum_equals_torch_while_the_rate_is_constant() -> None:
    model, twin = network(), network()
    gradients = noise(model, 20)
    theirs = torch_steps(twin, torch.optim.SGD(twin.parameters(), lr=0.01, momentum=0.9), gradients)
    assert_same(steps(model, Momentum(lr=0.01), gradients), theirs, 1e-12)


def test_momentum_differs_from_torch_when_the_rate_changes() -> None:
    """Our rate is inside v, as in the classical formula: the velocity remembers the rates it was built with."""
    schedule = Schedule(kind="step", every=2, drop=0.1)
    gradients = [[torch.ones(1, dtype=torch.float64)]] * 2
    model = toys.Point(torch.zeros(1, dtype=torch.float64))
    history = steps(model, Momentum(lr=1.0, schedule=schedule), gradients)
    assert float(history[0][0]) == pytest.approx(-1.0)
    assert float(history[1][0]) == pytest.approx(-1.0 - (0.9 * 1.0 + 0.1))
    torch_moves = 0.1 * (0.9 + 1.0)
    assert float(history[1][0]) != pytest.approx(-1.0 - torch_moves)


def test_adam_equals_torch_for_100_steps() -> None:
    model, twin = network(), network()
    gradients = noise(model, 100)
    theirs = torch_steps(twin, torch.optim.Adam(twin.parameters(), lr=0.01, eps=1e-8, foreach=False), gradients)
    assert_same(steps(model, Adam(lr=0.01), gradients), theirs, 1e-7)


def test_adam_first_step_is_bias_corrected() -> None:
    """With m^ = g and v^ = g², the first step is lr g / (|g| + eps), whatever the size of g."""
    model = toys.Point(torch.zeros(2, dtype=torch.float64))
    moved = steps(model, Adam(lr=0.1), [[torch.tensor([3.0, -1e-4], dtype=torch.float64)]])[0][0]
    assert moved.tolist() == pytest.approx([-0.1 * 3 / (3 + 1e-8), 0.1 * 1e-4 / (1e-4 + 1e-8)], rel=1e-9)


def test_epsilon_under_the_root_is_an_option_that_is_off() -> None:
    assert not Adam().eps_inside_sqrt
    model = toys.Point(torch.zeros(1, dtype=torch.float64))
    gradient = [[torch.tensor([1e-4], dtype=torch.float64)]] * 3
    history = steps(model, Adam(lr=0.1, eps_inside_sqrt=True), gradient)
    each = 0.1 * 1e-4 / (1e-8 + 1e-8) ** 0.5  # m^ = g and v^ = g² at every step
    assert [float(h[0]) for h in history] == pytest.approx([-each, -2 * each, -3 * each], rel=1e-5)


def test_adamw_equals_torch_with_the_same_groups() -> None:
    model, twin = network(), network()
    gradients = noise(model, 100)
    decayed = [p for p in twin.parameters() if p.ndim == 2]
    plain = [p for p in twin.parameters() if p.ndim < 2]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}]
    theirs = torch_steps(twin, torch.optim.AdamW(groups, lr=0.01, betas=(0.9, 0.95), foreach=False), gradients)
    assert_same(steps(model, AdamW(lr=0.01, betas=(0.9, 0.95), weight_decay=0.1), gradients), theirs, 1e-9)


def test_rmsprop_equals_torch() -> None:
    model, twin = network(), network()
    gradients = noise(model, 50)
    theirs = torch_steps(twin, torch.optim.RMSprop(twin.parameters(), lr=5e-5, foreach=False), gradients)
    assert_same(steps(model, RMSProp(lr=5e-5), gradients), theirs, 1e-12)


# -- relative updates -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alone", [True, False])
def test_a_relative_update_is_a_share_of_the_root_mean_square(alone: bool) -> None:
    """Adam's first step is the rate for every number; a parameter of zeros moves as if its numbers were 0.001."""
    model = network()
    with torch.no_grad():
        model[0].weight.mul_(100)
        model[0].bias.zero_()
    before = [p.detach().clone() for p in model.parameters()]
    update = Updater(Adam(lr=0.1, scale_parameter=True), [("", model)], halt=True, alone=alone)
    assert bool(update.flats) == alone
    update.set_rate(1, 1)
    for p, gradient in zip(model.parameters(), noise(model, 1)[0], strict=True):
        p.grad = gradient
    update.step()
    for old, p in zip(before, model.parameters(), strict=True):
        size = max(float(old.square().mean().sqrt()), 1e-3)
        torch.testing.assert_close((old - p.detach()).abs(), torch.full_like(old, 0.1 * size), rtol=1e-5, atol=0.0)


def test_relative_adamw_equals_a_loop_by_hand() -> None:
    model, lr, (first, second), decay = network(), 0.03, (0.9, 0.98), 0.1
    gradients = noise(model, 30)
    weights = [p.detach().numpy().copy() for p in model.parameters()]
    means, squares, wanted = [0 * w for w in weights], [0 * w for w in weights], []
    for t, given in enumerate(gradients, start=1):
        for i, g in enumerate(given):
            rate = lr * max(1e-3, float((weights[i] ** 2).mean() ** 0.5))
            means[i] = first * means[i] + (1 - first) * g.numpy()
            squares[i] = second * squares[i] + (1 - second) * g.numpy() ** 2
            step = means[i] / (1 - first**t) / ((squares[i] / (1 - second**t)) ** 0.5 + 1e-8)
            weights[i] = weights[i] - rate * step - rate * decay * (weights[i] if weights[i].ndim > 1 else 0.0)
        wanted.append([torch.from_numpy(w.copy()) for w in weights])
    assert_same(steps(model, AdamW(lr=lr, betas=(first, second), weight_decay=decay, scale_parameter=True), gradients), wanted, 1e-12)


def test_a_refused_relative_update_changes_nothing() -> None:
    model = network()
    before = [p.detach().clone() for p in model.parameters()]
    gradients = [[torch.full_like(p, float("nan")) for p in model.parameters()]]
    assert_same(steps(model, AdamW(scale_parameter=True), gradients), [before], 0.0)


def test_relative_updates_refuse_stages() -> None:
    class Staged(Team):
        stages = 2

    with pytest.raises(ConfigError, match="pipeline at 1"):
        Updater(AdamW(scale_parameter=True), [("", network())], halt=True, team=Staged())


# -- Muon -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(16, 16), (8, 32), (32, 8), (64, 100)])
def test_orthogonalise_brings_singular_values_near_one(shape: tuple[int, int]) -> None:
    matrices = torch.randn(3, *shape, generator=torch.Generator().manual_seed(0))
    out = orthogonalise(matrices).float()
    values = torch.linalg.svdvals(out)
    assert values.min() > 0.5
    assert values.max() < 1.3
    left, _, right = torch.linalg.svd(matrices, full_matrices=False)
    assert (out * (left @ right)).sum((1, 2)).div(min(shape)).min() > 0.7  # it points along the polar factor


@pytest.mark.parametrize("shape", [(16, 16), (8, 32), (32, 8)])
def test_muon_agrees_with_torch(shape: tuple[int, int]) -> None:
    start = torch.randn(*shape, generator=torch.Generator().manual_seed(0))
    mine, twin = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    ours = MuonOptimizer([mine], 0.02, 0.95, 0.1)
    theirs = torch.optim.Muon([twin], lr=0.02, momentum=0.95, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    for number in range(10):
        gradient = torch.randn(*shape, generator=torch.Generator().manual_seed(number))
        mine.grad, twin.grad = gradient.clone(), gradient.clone()
        ours.step()
        theirs.step()
    moved = (twin - start).norm()
    assert (mine - twin).norm() < 0.02 * moved  # both iterate in bf16, whose rounding depends on the kernel


def test_muon_takes_matrices_and_adamw_the_rest() -> None:
    model = GPTConfig(vocabulary=11, context=8, layers=1, heads=2, width=16, tie_embeddings=False).build()
    update = updater(Muon(lr=0.02, adamw_lr=0.003), model)
    muon, adamw = update.optimizers
    mine, rest = names_in(update, muon), names_in(update, adamw)
    assert mine == {f"blocks.0.{n}.weight" for n in ("attention.qkv", "attention.out", "feedforward.up", "feedforward.down")}
    assert mine | rest == set(update.named)
    assert not mine & rest
    assert {g["lr"] for g in muon.param_groups} == {0.02}
    assert {g["lr"] for g in adamw.param_groups} == {0.003}


def test_muon_gives_a_head_of_its_own_a_rate_of_its_own() -> None:
    model = GPTConfig(vocabulary=11, context=8, layers=1, heads=2, width=16, tie_embeddings=False).build()
    update = updater(Muon(lr=0.02, adamw_lr=0.003, head_lr=0.004), model)
    update.set_rate(1, 10)
    head, rest = update.optimizers[1].param_groups
    assert [p.numel() for p in head["params"]] == [11 * 16]
    assert (head["lr"], rest["lr"]) == (0.004, 0.003)


def test_muon_treats_a_convolution_as_a_matrix() -> None:
    torch.manual_seed(0)
    weight = nn.Parameter(torch.zeros(8, 3, 2, 2))
    optimizer = MuonOptimizer([weight], 1.0, 0.0, 0.0)
    weight.grad = torch.randn_like(weight)
    optimizer.step()
    values = torch.linalg.svdvals(weight.detach().flatten(1) / (0.2 * 12**0.5))
    assert values.min() > 0.5
    assert values.max() < 1.3


# -- decay groups -----------------------------------------------------------------------------------------------------


class Everything(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(5, 4)
        self.class_embedding = nn.Parameter(torch.zeros(2, 4))
        self.layer = nn.Linear(4, 4)
        self.convolution = nn.Conv1d(4, 4, 3)
        self.norm, self.group_norm = nn.LayerNorm(4), nn.GroupNorm(2, 4)
        self.head = nn.Linear(4, 5)


def test_no_decay_on_biases_norms_and_embeddings() -> None:
    kinds = parameter_kinds([("", Everything())])
    assert {name for name, kind in kinds.items() if kind != "no_decay"} == {"layer.weight", "convolution.weight", "head.weight"}
    assert kinds["head.weight"] == "head"
    assert len(kinds) == len(list(Everything().named_parameters()))


def test_decay_groups_reach_the_optimiser() -> None:
    model = Everything()
    update = updater(AdamW(weight_decay=0.1), model)
    decay = {g["weight_decay"]: names_in(update, {id(p) for p in g["params"]}) for g in update.optimizers[0].param_groups}
    assert set(decay) == {0.0, 0.1}
    assert decay[0.1] == {"layer.weight", "convolution.weight", "head.weight"}
    assert decay[0.0] | decay[0.1] == {name for name, _ in model.named_parameters()}


def names_in(update: Updater, holder: torch.optim.Optimizer | set[int]) -> set[str]:
    """The parameters an optimiser, or a set of tensors, updates."""
    ids = holder if isinstance(holder, set) else {id(p) for g in holder.param_groups for p in g["params"]}
    return {name for parts, held in update.owners() if id(held) in ids for name in parts}


def test_laid_end_to_end_or_not_the_update_is_the_same() -> None:
    """FlatParameter buffers change how many calls an update takes, and nothing else; their state has each parameter's name."""
    results, states = [], []
    for alone in (True, False):
        torch.manual_seed(0)
        model = Everything()
        update = Updater(AdamW(lr=0.01, clip_norm=1.0), [("", model)], halt=True, alone=alone)
        assert bool(update.flats) == alone
        for number in range(5):
            generator = torch.Generator().manual_seed(number)
            for p in update.parameters:
                p.grad = torch.randn(p.shape, generator=generator)
            update.set_rate(1, 10)
            update.step()
        results.append({n: p.detach().clone() for n, p in model.named_parameters()})
        states.append({name: value.clone() for name, value in update.state_tensors().items()})
        update.load_state_tensors(states[0])
    for name, value in results[0].items():
        assert torch.allclose(value, results[1][name], atol=1e-7)
    assert states[0].keys() == states[1].keys()
    for name, value in states[0].items():
        assert torch.allclose(value, states[1][name], atol=1e-7)
        assert value.shape == states[1][name].shape


def test_a_head_tied_to_an_embedding_counts_as_an_embedding() -> None:
    model = GPTConfig(vocabulary=11, context=8, layers=1, heads=2, width=16, tie_embeddings=True).build()
    kinds = parameter_kinds([("", model)])
    assert kinds["embed.weight"] == "no_decay"
    assert "head.weight" not in kinds
    assert len(updater(AdamW(), model).parameters) == len(list(model.parameters()))


def test_only_the_modules_of_the_turn_are_updated() -> None:
    model = Everything()
    update = Updater(AdamW(), [("layer", model.layer), ("norm", model.norm)], halt=True)
    assert set(update.named) == {"layer.weight", "layer.bias", "norm.weight", "norm.bias"}


# -- clipping -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [0.1, 1.0, 1e6])
def test_clipping_by_norm_keeps_the_direction(limit: float) -> None:
    model = network()
    gradients = noise(model, 1)
    before = [p.detach().clone() for p in model.parameters()]
    after = steps(model, SGD(lr=1.0, clip_norm=limit), gradients)[0]
    moved = torch.cat([(a - b).flatten() for a, b in zip(before, after, strict=True)])
    given = torch.cat([g.flatten() for g in gradients[0]])
    assert moved.norm() <= limit * (1 + 1e-6)
    torch.testing.assert_close(moved / moved.norm(), given / given.norm())
    if given.norm() < limit:
        torch.testing.assert_close(moved, given)
    else:
        assert float(moved.norm()) == pytest.approx(limit, rel=1e-5)


def test_clipping_by_value_bounds_every_element() -> None:
    model = toys.Point(torch.zeros(4))
    moved = steps(model, SGD(lr=1.0, clip_value=0.5), [[torch.tensor([2.0, -3.0, 0.25, 0.0])]])[0][0]
    assert moved.tolist() == [-0.5, 0.5, -0.25, 0.0]


def test_the_reported_norm_is_that_before_clipping() -> None:
    model = toys.Point(torch.zeros(2))
    update = updater(SGD(lr=1.0, clip_norm=1.0), model)
    update.set_rate(1, 1)
    model.x.grad = torch.tensor([3.0, 4.0])
    update.step()
    assert float(update.norm) == pytest.approx(5.0)
    torch.testing.assert_close(model.x.detach(), torch.tensor([-0.6, -0.8]))


# -- regularisation -----------------------------------------------------------------------------------------------------


class Matrix(nn.Module):
    """A weight that is decayed, and a bias that is not."""

    def __init__(self, weight: Tensor):
        super().__init__()
        self.weight = nn.Parameter(weight.clone())
        self.bias = nn.Parameter(torch.ones(weight.size(1), dtype=weight.dtype))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight


def test_l1_and_l2_add_their_gradients() -> None:
    weight = torch.tensor([[1.0, -2.0], [0.5, 4.0]], dtype=torch.float64)
    gradient = torch.tensor([[0.3, 0.1], [-0.2, 0.0]], dtype=torch.float64)
    still = torch.zeros(2, dtype=torch.float64)
    moved = weight - steps(Matrix(weight), SGD(lr=1.0, l2=0.01), [[gradient, still]])[0][0]
    torch.testing.assert_close(moved, gradient + 2 * 0.01 * weight)
    history = steps(Matrix(weight), SGD(lr=1.0, l1=0.01), [[gradient, still]])[0]
    torch.testing.assert_close(weight - history[0], gradient + 0.01 * weight.sign())
    assert history[1].tolist() == [1.0, 1.0]


def test_l2_equals_half_the_weight_decay_under_sgd_but_not_under_adam() -> None:
    weight = torch.tensor([[1.0, -2.0], [0.5, 4.0]], dtype=torch.float64)
    gradients = [[torch.randn(2, 2, dtype=torch.float64), torch.zeros(2, dtype=torch.float64)] for _ in range(5)]
    coupled = steps(Matrix(weight), SGD(lr=0.1, l2=0.05), gradients)
    assert_same(coupled, steps(Matrix(weight), SGD(lr=0.1, weight_decay=0.1), gradients), 1e-12)
    first = steps(Matrix(weight), AdamW(lr=0.1, l2=0.05, weight_decay=0.0), gradients)[-1][0]
    second = steps(Matrix(weight), AdamW(lr=0.1, weight_decay=0.1), gradients)[-1][0]
    assert (first - second).abs().max() > 1e-3


def sparse_regression(optim: OptimConfig) -> Tensor:
    """Fit 40 weights of which 5 matter; returns those learned."""
    generator = torch.Generator().manual_seed(0)
    truth = torch.zeros(40, 1)
    truth[:5, 0] = torch.tensor([2.0, -3.0, 1.5, -1.0, 2.5])
    x = torch.randn(200, 40, generator=generator)
    y = x @ truth + 0.1 * torch.randn(200, 1, generator=generator)
    model = Matrix(torch.randn(40, 1, generator=generator))
    trainer = toys.trainer(model, toys.Regression(), {"x": x, "y": y}, optim, batch=200, steps=300)
    for _ in range(300):
        trainer.run_step()
    return model.weight.detach()[:, 0]


def test_l1_gives_exact_zeros_and_l2_does_not() -> None:
    with_l1 = sparse_regression(SGD(lr=0.05, l1=0.1))
    with_l2 = sparse_regression(SGD(lr=0.05, l2=0.05))
    assert int((with_l1[5:] == 0).sum()) == 35
    assert (with_l1[:5].abs() > 0.5).all()
    assert int((with_l2 == 0).sum()) == 0


# -- guard and state --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("config", [SGD(), SGD(clip_value=1.0), SGD(l1=0.1), Momentum(), RMSProp(), Adam(), AdamW(clip_norm=1.0), Muon()])
def test_an_update_that_is_not_finite_is_refused(config: OptimConfig, value: float, device: torch.device) -> None:
    model = network(torch.float32).to(device)
    update = updater(config, model)
    update.set_rate(1, 10)
    before = toys.weights(model)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    next(model.parameters()).grad[0, 0] = value
    update.step()
    assert float(update.refused) == 1
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, before[name])


@pytest.mark.parametrize("name", list(registry.OPTIMIZERS))
def test_state_survives_saving(name: str, device: torch.device) -> None:
    config = registry.find("optimizers", name)(lr=0.01)
    model = network(torch.float32).to(device)
    gradients = [[g.to(device) for g in given] for given in noise(model, 8)]

    def advance(update: Updater, some: list[list[Tensor]]) -> None:
        for given in some:
            update.set_rate(1, 1)
            for parameter, gradient in zip(update.named.values(), given, strict=True):
                parameter.grad = gradient.clone()
            update.step()

    update = updater(config, model)
    advance(update, gradients[:4])
    twin: Any = copy.deepcopy(model)
    saved = {key: value.clone() for key, value in update.state_tensors().items()}
    advance(update, gradients[4:])
    again = updater(config, twin)
    again.load_state_tensors(saved)
    advance(again, gradients[4:])
    for a, b in zip(model.parameters(), twin.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_parameter_that_is_one_number_keeps_its_state_apart_from_the_count_of_steps() -> None:
    class WithScale(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.tensor(1.0))
            self.bias = nn.Parameter(torch.zeros(3))

    first, second = WithScale(), WithScale()
    made, other = updater(AdamW(), first), updater(AdamW(), second)
    for p in made.parameters:
        p.grad = torch.ones_like(p)
    made.step()
    other.load_state_tensors({name: value.clone() for name, value in made.state_tensors().items()})
    assert {name: value.shape for name, value in other.state_tensors().items()} == {n: v.shape for n, v in made.state_tensors().items()}
    for p in [*made.parameters, *other.parameters]:
        p.grad = torch.ones_like(p)
    second.load_state_dict(first.state_dict())
    made.step()
    other.step()
    for name, value in first.named_parameters():
        assert torch.equal(value, dict(second.named_parameters())[name])
