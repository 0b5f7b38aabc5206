"""The training loop against closed forms: descent, exact averages, turns, ramps, non-finite gradients."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.training import toys
from weft.core.errors import ConfigError, NonFiniteError
from weft.data.base import UNLABELLED, Batch
from weft.objectives.base import Objective, Terms, count
from weft.training.hooks import Hook
from weft.training.optimizer.settings import SGD, Adam, AdamW, Momentum, OptimConfig
from weft.training.schedule import Schedule


def test_full_batch_descent_follows_the_closed_form(device: torch.device) -> None:
    rows = torch.randn(8, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    start = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    matrix = rows.T @ rows / 8
    trainer = toys.trainer(toys.Point(start), toys.Quadratic(), {"row": rows}, SGD(lr=0.2), batch=8, steps=50, device=device)
    for step in range(1, 51):
        trainer.run_step()
        expected = torch.linalg.matrix_power(torch.eye(3, dtype=torch.float64) - 0.2 * matrix, step) @ start
        torch.testing.assert_close(trainer.model.x.detach().cpu(), expected, atol=1e-6, rtol=0)


def test_one_step_is_theta_minus_rate_times_batch_gradient() -> None:
    model = toys.Linear()
    trainer = toys.trainer(model, toys.Regression(), toys.regression(), SGD(lr=0.3), batch=5)
    before = toys.weights(model)
    batch = trainer.source.batch(0, 5)
    loss = (model(batch["x"]) - batch["y"]).square().mean()
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    trainer.run_step()
    for (name, parameter), gradient in zip(model.named_parameters(), gradients, strict=True):
        torch.testing.assert_close(parameter.detach(), before[name] - 0.3 * gradient, atol=1e-7, rtol=1e-6)


def test_every_example_is_seen_once_per_epoch() -> None:
    objective = toys.Rivals()
    trainer = toys.trainer(toys.Pair(), objective, toys.regression(30), batch=7, micro_batch=3, steps=30)
    for _ in range(30):
        trainer.run_step()
    drawn = [number for _, numbers in objective.seen for number in numbers]
    for epoch in range(len(drawn) // 30):
        assert Counter(drawn[30 * epoch : 30 * epoch + 30]) == Counter(range(30))


@pytest.mark.parametrize("micro", [1, 2, 3, 5, 7, 11])
@pytest.mark.parametrize("objective", [toys.Regression, toys.HalfLabelled])
def test_ragged_micro_batches_equal_the_big_batch(objective: type[Objective], micro: int, device: torch.device) -> None:
    results = []
    for size in (0, micro):
        torch.manual_seed(0)
        trainer = toys.trainer(
            toys.Linear(), objective(), toys.regression(), AdamW(lr=0.01), batch=11, micro_batch=size, steps=5, device=device
        )
        for _ in range(5):
            trainer.run_step()
        results.append((toys.weights(trainer.model), trainer.means.read()))
    for name in results[0][0]:
        torch.testing.assert_close(results[0][0][name], results[1][0][name], atol=1e-6, rtol=1e-6)
    assert results[0][1] == pytest.approx(results[1][1], rel=1e-5)


@pytest.mark.parametrize("kind", ["labelled", "unlabelled", "mixed"])
def test_labelled_unlabelled_and_mixed_batches_pass_the_same_trainer(kind: str) -> None:
    tensors = toys.regression()
    if kind != "mixed":
        tensors["label"] = torch.arange(64) % 3 if kind == "labelled" else torch.full((64,), UNLABELLED)
    model = toys.Linear()
    trainer = toys.trainer(model, toys.HalfLabelled(), tensors, batch=8, steps=3)
    batch, before = trainer.source.batch(0, 8), toys.weights(model)
    logits = model(batch["x"])
    loss = (logits @ model.layer.weight - batch["x"]).square().sum(-1).mean()
    if kind != "unlabelled":
        loss = loss + 0.5 * F.cross_entropy(logits, batch["label"], ignore_index=UNLABELLED)
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    trainer.run_step()
    for (name, parameter), gradient in zip(model.named_parameters(), gradients, strict=True):
        torch.testing.assert_close(parameter.detach(), before[name] - 0.1 * gradient, atol=1e-6, rtol=1e-5)
    numbers = trainer.means.read()
    assert numbers["loss"] == pytest.approx(float(loss.detach()), rel=1e-5)
    assert numbers["label"] == 0.0 if kind == "unlabelled" else numbers["label"] > 0


class Free(nn.Module):
    """Any distribution over ten points."""

    def __init__(self) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.randn(10, generator=torch.Generator().manual_seed(0)))


class Likelihood(Objective):
    def counts(self, batch: Batch) -> dict[str, Tensor]:
        return {"loss": count(len(batch["point"]), like=batch["point"])}

    def forward(self, model: nn.Module, batch: Batch, turn: str) -> Terms:
        return Terms({"loss": -model.logits.log_softmax(0)[batch["point"]].sum()})


def test_maximum_likelihood_on_a_finite_set_reaches_its_logarithm() -> None:
    trainer = toys.trainer(Free(), Likelihood(), {"point": torch.arange(10)}, Adam(lr=0.1), batch=10, steps=300)
    for _ in range(300):
        trainer.run_step()
    torch.testing.assert_close(trainer.model.logits.softmax(0), torch.full((10,), 0.1), atol=1e-4, rtol=0)
    trainer.means.clear()
    trainer.run_step()
    assert trainer.means.read()["loss"] == pytest.approx(math.log(10), abs=1e-5)


# -- turns --------------------------------------------------------------------------------------------------------------


def test_each_turn_changes_only_its_own_modules_with_its_own_optimiser() -> None:
    model = toys.Pair()
    rates = {"first": SGD(lr=0.5), "second": Momentum(lr=0.001)}
    trainer = toys.trainer(model, toys.Rivals(), toys.regression(), rates, batch=4, micro_batch=4)
    before, batch = toys.weights(model), trainer.source.batch(0, 4)
    loss = (model.first(batch["x"]) - model.second(batch["x"])).square().mean(-1).mean()
    gradient = torch.autograd.grad(loss, model.first.layer.weight)[0]
    trainer.run_step()
    torch.testing.assert_close(model.first.layer.weight.detach(), before["first.layer.weight"] - 0.5 * gradient)
    assert not torch.equal(model.second.layer.weight, before["second.layer.weight"])
    assert trainer.objective.updates.tolist() == [1, 1]


@pytest.mark.parametrize("fresh", [True, False])
def test_a_turn_draws_new_batches_or_reuses_those_before(fresh: bool) -> None:
    objective = toys.Rivals(fresh)
    trainer = toys.trainer(toys.Pair(), objective, toys.regression(), batch=6, micro_batch=4, shuffle=False)
    trainer.run_step()
    first = [("first", [0, 1, 2, 3]), ("first", [4, 5])]
    second = [("second", [6, 7, 8, 9]), ("second", [10, 11])] if fresh else [("second", [0, 1, 2, 3]), ("second", [4, 5])]
    assert objective.seen == first + second
    assert trainer.cursor == (12 if fresh else 6)


def test_a_turn_without_optimiser_is_named() -> None:
    with pytest.raises(ConfigError, match="no optimiser for the turn 'second'"):
        toys.trainer(toys.Pair(), toys.Rivals(), toys.regression(), {"first": SGD()})


# -- positions ----------------------------------------------------------------------------------------------------------


class Rates(Hook):
    """Remembers the rate and the batch of every step."""

    def __init__(self) -> None:
        self.rates: list[float] = []
        self.cursors = [0]

    def after_step(self, trainer: toys.Trainer) -> None:
        self.rates.append(trainer.updaters[""].optimizers[0].param_groups[0]["lr"])
        self.cursors.append(trainer.cursor)

    @property
    def sizes(self) -> list[int]:
        return [b - a for a, b in zip(self.cursors, self.cursors[1:], strict=False)]


def fit(optim: OptimConfig, **settings: object) -> Rates:
    rates = Rates()
    toys.trainer(toys.Linear(), toys.Regression(), toys.regression(256), optim, [rates], **settings).fit()
    return rates


def test_rates_by_tokens_do_not_depend_on_accumulation() -> None:
    schedule = Schedule(kind="cosine", unit="tokens", warmup=512 * 4, min_lr_ratio=0.1)
    whole = fit(SGD(lr=1e-3, schedule=schedule), tokens=8, batch=128, micro_batch=128, steps=12)
    bf16_weights = fit(SGD(lr=1e-3, schedule=schedule), tokens=8, batch=128, micro_batch=64, steps=12)
    assert whole.rates == bf16_weights.rates
    assert whole.rates == [1e-3 * schedule.factor(128 * 8 * step, 128 * 8 * 12) for step in range(1, 13)]


def test_rates_by_tokens_are_a_function_of_tokens_and_not_of_steps() -> None:
    schedule = Schedule(kind="linear", unit="tokens")
    large = fit(SGD(lr=1.0, schedule=schedule), tokens=8, batch=64, steps=10)
    small = fit(SGD(lr=1.0, schedule=schedule), tokens=8, batch=32, steps=20)
    assert large.rates == small.rates[1::2]


def test_the_batch_grows_as_the_ramp_says() -> None:
    rates = fit(SGD(lr=1e-3), tokens=8, batch=32, batch_ramp=(4, 200), steps=20)
    cursor, expected = 0, []
    for _ in range(20):
        expected.append(32 if cursor >= 200 else 4 + 28 * cursor // 200)
        cursor += expected[-1]
    assert rates.sizes == expected
    assert expected[0] == 4
    assert expected[-1] == 32
    assert expected == sorted(expected)


def test_the_ramp_of_gpt3() -> None:
    """From 32 thousand to 3.2 million tokens a step in a straight line over the first 4 billion, sequences of 2048."""
    over = 4_000_000_000 // 2048
    trainer = toys.trainer(toys.Linear(), toys.Regression(), toys.regression(), tokens=2048, batch=1600, batch_ramp=(16, over))
    tokens = [trainer.batch_size(round(share * over)) * 2048 for share in (0.0, 0.25, 0.5, 1.0, 3.0)]
    assert tokens == pytest.approx([32_768, 843_776, 1_654_784, 3_276_800, 3_276_800], abs=2048)


def test_a_decay_by_tokens_ends_with_the_run_even_with_a_ramp() -> None:
    schedule = Schedule(kind="linear", unit="tokens", min_lr_ratio=0.25)
    rates = fit(SGD(lr=1.0, schedule=schedule), tokens=3, batch=32, batch_ramp=(4, 200), steps=20)
    assert rates.rates[-1] == pytest.approx(0.25)
    assert rates.rates[-2] > 0.25


# -- gradients that are not finite ------------------------------------------------------------------------------------


class Explosive(toys.Regression):
    """Gives an infinite gradient for examples with a number in `bad`."""

    bad = 13

    def forward(self, model: nn.Module, batch: Batch, turn: str) -> Terms:
        terms = super().forward(model, batch, turn)
        worse = torch.where(batch["number"] == self.bad, float("inf"), 0.0).sum()
        return Terms({"loss": terms.sums["loss"] + worse * model.layer.weight.sum()})


@pytest.mark.parametrize("optim", [SGD(lr=0.01), SGD(lr=0.01, clip_value=1.0), AdamW(lr=0.01, clip_norm=1.0), Momentum(lr=0.01)])
def test_raise_leaves_the_weights_as_before_the_step(optim: OptimConfig, device: torch.device) -> None:
    trainer = toys.trainer(toys.Linear(), Explosive(), toys.regression(), optim, batch=4, shuffle=False, steps=10, device=device)
    for _ in range(3):
        trainer.run_step()
    before = toys.weights(trainer.model)
    with pytest.raises(NonFiniteError, match="step 4: a gradient was not finite"):
        trainer.fit()
    for name, value in trainer.model.state_dict().items():
        assert torch.equal(value, before[name])


def test_skip_leaves_out_the_update_and_goes_on(device: torch.device) -> None:
    trainer = toys.trainer(
        toys.Linear(), Explosive(), toys.regression(), Adam(lr=0.01), batch=4, shuffle=False, steps=5, nonfinite="skip", device=device
    )
    history = []
    for _ in range(5):
        trainer.run_step()
        history.append(toys.weights(trainer.model)["layer.weight"])
    assert torch.equal(history[3], history[2])
    assert not torch.equal(history[4], history[3])
    assert torch.isfinite(history[4]).all()
    assert float(trainer.updaters[""].refused) == 1


def test_rollback_without_a_checkpoint_is_an_error() -> None:
    trainer = toys.trainer(
        toys.Linear(), Explosive(), toys.regression(), SGD(lr=0.01), batch=4, shuffle=False, steps=10, nonfinite="rollback"
    )
    with pytest.raises(NonFiniteError):
        trainer.fit()


# -- hooks around the run -------------------------------------------------------------------------------------------------


class Order(Hook):
    def __init__(self, name: str, events: list[str], fail: bool = False):
        self.name, self.events, self.fail = name, events, fail

    def start(self, trainer: toys.Trainer) -> None:
        self.events.append(f"{self.name} starts")
        if self.fail:
            raise RuntimeError("as asked")

    def after_step(self, trainer: toys.Trainer) -> None:
        self.events.append(f"{self.name} step {trainer.step}")

    def complete(self, trainer: toys.Trainer) -> None:
        self.events.append(f"{self.name} completes")

    def finish(self, trainer: toys.Trainer) -> None:
        self.events.append(f"{self.name} finishes")


def test_hooks_run_in_order_around_the_steps() -> None:
    """The last is the first to start and the last to finish: it holds the folder, to which the others write."""
    events: list[str] = []
    hooks = [Order("a", events), Order("b", events)]
    toys.trainer(toys.Linear(), toys.Regression(), toys.regression(), hooks=hooks, steps=1).fit()
    assert events == ["b starts", "a starts", "a step 1", "b step 1", "a completes", "b completes", "a finishes", "b finishes"]


def test_a_hook_that_cannot_start_leaves_the_others_finished() -> None:
    events: list[str] = []
    hooks = [Order("a", events, fail=True), Order("b", events)]
    with pytest.raises(RuntimeError, match="as asked"):
        toys.trainer(toys.Linear(), toys.Regression(), toys.regression(), hooks=hooks, steps=1).fit()
    assert events == ["b starts", "a starts", "b finishes"]


# -- captured graphs ----------------------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize(
    "optim", [SGD(lr=0.1), Momentum(lr=0.1), AdamW(lr=0.01), Adam(lr=0.01, l1=1e-3, clip_norm=0.5), AdamW(lr=0.1, scale_parameter=True)]
)
def test_captured_steps_equal_eager_ones(optim: OptimConfig) -> None:
    results = []
    for graphs in ("off", "on"):
        torch.manual_seed(0)
        trainer = toys.trainer(
            toys.Linear(dropout=0.2), toys.HalfLabelled(), toys.regression(), optim, batch=8, micro_batch=4, cuda_graphs=graphs,
            device=torch.device("cuda"), nonfinite="skip",
        )  # fmt: skip
        for _ in range(12):
            trainer.run_step()
        results.append((toys.weights(trainer.model), trainer.means.read()))
    for name in results[0][0]:
        torch.testing.assert_close(results[0][0][name], results[1][0][name], atol=1e-6, rtol=1e-5)
    assert results[0][1] == pytest.approx(results[1][1], rel=1e-5)


@pytest.mark.gpu
def test_a_captured_run_can_be_set_back() -> None:
    """Loading state must not move tensors that a graph has captured."""
    torch.manual_seed(0)
    trainer = toys.trainer(
        toys.Linear(), toys.Regression(), toys.regression(), AdamW(lr=0.01), batch=8, cuda_graphs="on", device=torch.device("cuda")
    )
    for _ in range(6):
        trainer.run_step()
    tensors, plain = trainer.state()
    tensors, held = {name: value.clone() for name, value in tensors.items()}, toys.weights(trainer.model)
    ends = []
    for _ in range(2):
        trainer.model.load_state_dict(held)
        trainer.load_state(tensors, plain)
        for _ in range(6):
            trainer.run_step()
        ends.append((toys.weights(trainer.model), trainer.means.read()))
    for name in held:
        assert torch.equal(ends[0][0][name], ends[1][0][name])
    assert ends[0][1] == ends[1][1]
