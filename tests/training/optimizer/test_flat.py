"""Parameters held as one buffer: the same updates, the same state by name, to and from parameters held apart."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from tests.training import toys
from weft.training.optimizer.flat import FlatParameter
from weft.training.optimizer.settings import SGD, Adam, AdamW, Momentum, Muon, OptimConfig, RMSProp
from weft.training.optimizer.updater import Updater

EVERY = [
    SGD(lr=0.1, l2=0.01),
    SGD(lr=0.1, l1=0.01, clip_value=0.5),
    Momentum(lr=0.1, weight_decay=0.1),
    RMSProp(lr=0.01),
    Adam(lr=0.01, weight_decay=0.1),
    Adam(lr=0.01, eps_inside_sqrt=True),
    AdamW(lr=0.01, weight_decay=0.1, clip_norm=0.5),
    Muon(lr=0.01, clip_norm=0.5),
    AdamW(lr=0.01, clip_norm=0.5, scale_parameter=True),
]


class Scaled(nn.Module):
    """A number first, then matrices and vectors of odd sizes."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.embed = nn.Embedding(5, 3)
        self.first, self.second = nn.Linear(3, 7), nn.Linear(7, 1, bias=False)


def make(config: OptimConfig, device: torch.device, flat: bool, monkeypatch: pytest.MonkeyPatch) -> tuple[nn.Module, Updater]:
    model = Scaled().to(device)
    with monkeypatch.context() as patch:
        if not flat:
            patch.setattr(FlatParameter, "serves", staticmethod(lambda named: False))
        return model, Updater(config, [("", model)], halt=True)


def advance(update: Updater, first: int, number: int) -> None:
    """Updates with gradients that depend on the parameter's name and the step alone."""
    for step in range(first, first + number):
        update.zero_grad()
        for name, parameter in update.named.items():
            seed = torch.Generator().manual_seed(1000 * step + sum(map(ord, name)))
            parameter.grad = torch.randn(parameter.shape, generator=seed).to(parameter.device)
        update.set_rate(step, 100)
        update.step()


def same(first: dict[str, Tensor], second: dict[str, Tensor]) -> None:
    assert first.keys() == second.keys()
    for name, value in first.items():
        torch.testing.assert_close(value, second[name], atol=1e-6, rtol=1e-5, msg=lambda text, name=name: f"{name}: {text}")


def test_a_parameter_is_a_view_of_the_buffer() -> None:
    model = Scaled()
    named = dict(model.named_parameters())
    before = toys.weights(model)
    flat = FlatParameter(named)
    same(before, toys.weights(model))
    with torch.no_grad():
        flat.buffer.mul_(2)
    same({name: 2 * value for name, value in before.items()}, toys.weights(model))
    model.load_state_dict(before)
    assert float(flat.buffer[0].detach()) == 1.5


def test_weights_of_an_rnn_stay_where_cudnn_wants_them(device: torch.device) -> None:
    """End to end in an order of its own; elsewhere it would gather them before every pass."""
    model = nn.Sequential(nn.Linear(3, 4), nn.LSTM(4, 5, batch_first=True)).to(device)
    before = {name: p.data_ptr() for name, p in model.named_parameters()}
    update = Updater(AdamW(lr=0.01), [("", model)], halt=True)
    advance(update, 1, 2)
    moved = {name for name, p in model.named_parameters() if p.data_ptr() != before[name]}
    assert not any(name.startswith("1.") for name in moved)
    assert {name for flat in update.flats for name in flat.named} == moved
    if device.type == "cuda":
        model(torch.randn(2, 6, 3, device=device))  # warnings are errors


def test_gradients_are_laid_together_and_a_missing_one_is_zero() -> None:
    model = Scaled()
    flat = FlatParameter(dict(model.named_parameters()))
    model.first.weight.grad = torch.ones_like(model.first.weight)
    flat.gather()
    laid = flat.views(flat.buffer.grad)  # type: ignore[arg-type]
    assert laid["first.weight"].unique().tolist() == [1.0]
    assert float(laid["embed.weight"].abs().sum()) == 0.0


@pytest.mark.parametrize("config", EVERY)
def test_updates_are_those_of_parameters_held_apart(config: OptimConfig, device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [make(config, device, flat, monkeypatch) for flat in (True, False)]
    assert pairs[0][1].flats
    assert not pairs[1][1].flats
    for _, update in pairs:
        advance(update, 1, 10)
    same(toys.weights(pairs[0][0]), toys.weights(pairs[1][0]))
    same(pairs[0][1].state_tensors(), pairs[1][1].state_tensors())


@pytest.mark.parametrize("config", EVERY)
@pytest.mark.parametrize(("before", "after"), [(True, True), (True, False), (False, True)])
def test_state_loads_however_it_was_held(
    config: OptimConfig, before: bool, after: bool, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, update = make(config, device, before, monkeypatch)
    advance(update, 1, 4)
    state = {name: value.clone() for name, value in update.state_tensors().items()}
    other, again = make(config, device, after, monkeypatch)
    other.load_state_dict(model.state_dict())
    again.load_state_tensors(state)
    same(state, again.state_tensors())
    advance(update, 5, 4)
    advance(again, 5, 4)
    same(toys.weights(model), toys.weights(other))


def test_parameters_of_two_turns_are_held_apart() -> None:
    """Two optimisers of one parameter may not each move it into a buffer of its own."""

    class Both(toys.Rivals):
        def __init__(self) -> None:
            super().__init__()
            self.turns = (toys.Turn("first", ("",)), toys.Turn("second", ("second",)))

    model = toys.Pair()
    trainer = toys.trainer(model, Both(), toys.regression(), {"first": SGD(lr=0.1), "second": AdamW(lr=0.1)}, batch=4)
    before = toys.weights(model)
    for _ in range(3):
        trainer.run_step()
    assert all(torch.isfinite(value).all() for value in model.state_dict().values())
    assert any(not torch.equal(before[name], value) for name, value in model.state_dict().items())
    first, second = trainer.updaters["first"], trainer.updaters["second"]
    assert {id(p) for p in second.parameters} < {id(p) for p in first.parameters}
    for parameter in second.parameters:
        owners = [flat for updater in (first, second) for flat in updater.flats if any(parameter is p for p in flat.named.values())]
        assert len(owners) <= 1


def test_a_frozen_parameter_is_left_alone() -> None:
    model = Scaled()
    model.embed.weight.requires_grad_(False)
    update = Updater(AdamW(lr=0.1), [("", model)], halt=True)
    before = model.embed.weight.clone()
    advance(update, 1, 3)
    assert "embed.weight" not in update.named
    assert torch.equal(model.embed.weight, before)
