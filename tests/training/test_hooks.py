"""Averaging, validation, early stopping, logs, checkpoints of a run, signals."""

from __future__ import annotations

import json
import math
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.training import toys
from tests.training.test_trainer import Explosive
from weft.core.errors import CheckpointError, ConfigError, NonFiniteError
from weft.data.base import Batch, DataLoader, TensorDataset
from weft.objectives.base import Objective, Terms, count
from weft.training.checkpoint import checkpoint
from weft.training.checkpoint.hook import Checkpoints
from weft.training.hooks import EMA, Hook, Signals, Validation, evaluate, share_of_newest
from weft.training.log import Log, drop_after
from weft.training.loggers.tensorboard import TensorBoard
from weft.training.optimizer.settings import SGD, Adam
from weft.training.parallel.team import Team
from weft.training.trainer import Trainer


def held_out(device: torch.device | None = None, examples: int = 20) -> DataLoader:
    return DataLoader(TensorDataset(toys.regression(examples)), 1, device or torch.device("cpu"), shuffle=False)


def full_trainer(folder: Path, every: int = 2, extra: tuple[Hook, ...] = (), **settings: Any) -> Trainer:
    """A run with every hook: averaging, validation, log, checkpoints, signals."""
    torch.manual_seed(0)
    folder.mkdir(exist_ok=True)
    patience = settings.pop("patience", 0)
    hooks: list[Hook] = [EMA(0.9), Validation(held_out(), every, 0, 64, "loss", "min", patience)]
    keeper = Checkpoints(folder, {}, None, settings.pop("save_every", 3), settings.pop("keep_checkpoints", 2))
    hooks += [*extra, Log(folder, settings.get("log_every", 1), [TensorBoard()]), keeper, Signals()]
    settings = {"batch": 4, "steps": 10, **settings}
    objective = settings.pop("objective", toys.Regression())
    trainer = toys.trainer(toys.Linear(dropout=0.1), objective, toys.regression(), Adam(lr=0.01), hooks, **settings)
    keeper.restore(trainer)
    return trainer


def hook(trainer: Trainer, kind: type) -> Any:
    return next(h for h in trainer.hooks if isinstance(h, kind))


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


# -- averaging --------------------------------------------------------------------------------------------------------------


class Trail(Hook):
    """The weights after every step, and a signal to oneself where asked."""

    def __init__(self, stop_at: int = 0, number: int = signal.SIGTERM):
        self.weights: list[dict[str, Tensor]] = []
        self.stop_at, self.number = stop_at, number

    def after_step(self, trainer: Trainer) -> None:
        self.weights.append(toys.weights(trainer.model))
        if trainer.step == self.stop_at:
            os.kill(os.getpid(), self.number)


def test_the_average_has_its_closed_form() -> None:
    trail, average, model = Trail(), EMA(0.8), toys.Linear()
    toys.trainer(model, toys.Regression(), toys.regression(), SGD(lr=0.05), [trail, average], batch=4, steps=6).fit()
    newest = [share_of_newest(0.8, step) for step in range(1, 7)]
    assert newest[0] == 1.0
    shares = [share * math.prod(1 - later for later in newest[step + 1 :]) for step, share in enumerate(newest)]
    assert sum(shares) == pytest.approx(1.0)
    for name, value in average.average.items():
        expected = sum(share * weights[name] for share, weights in zip(shares, trail.weights, strict=True)) / sum(shares)
        torch.testing.assert_close(value, expected)


def test_a_young_average_keeps_up_and_an_old_one_has_its_decay() -> None:
    def shares(decay: float, steps: int) -> list[float]:
        newest = [share_of_newest(decay, step) for step in range(1, steps + 1)]
        return [share * math.prod(1 - later for later in newest[step + 1 :]) for step, share in enumerate(newest)]

    young = shares(0.999, 80)
    assert sum(step * share for step, share in enumerate(young, 1)) == pytest.approx(0.9 * 80, rel=0.02)
    assert young[0] < 1e-11
    old = shares(0.9, 300)
    assert old[-5:] == pytest.approx([0.1 * 0.9**age for age in range(4, -1, -1)])


def test_the_average_takes_the_models_place_for_a_while() -> None:
    model, average = toys.Linear(), EMA(0.5)
    toys.trainer(model, toys.Regression(), toys.regression(), SGD(lr=0.05), [average], batch=4, steps=6).fit()
    own = toys.weights(model)
    with average.applied(model):
        assert torch.equal(model.layer.weight, average.average["layer.weight"])
    assert torch.equal(model.layer.weight, own["layer.weight"])


def test_validation_sees_the_average(tmp_path: Path) -> None:
    trainer = full_trainer(tmp_path, steps=4)
    trainer.fit()
    average, validation = hook(trainer, EMA), hook(trainer, Validation)
    with average.applied(trainer.model):
        expected = evaluate(trainer.model, trainer.objective, held_out(), 20, 7)
    assert validation.latest["loss"] == pytest.approx(expected["loss"], rel=1e-6)
    saved = checkpoint.read(checkpoint.resolve(f"{tmp_path}@last"))
    assert torch.equal(saved.tensors("ema.safetensors")["layer.weight"], average.average["layer.weight"])
    assert torch.equal(saved.tensors("model.safetensors")["layer.weight"], trainer.model.layer.weight)


# -- validation and early stopping ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 3, 7, 20, 64])
def test_evaluation_does_not_depend_on_the_batch(batch: int) -> None:
    torch.manual_seed(0)
    model = toys.Linear(dropout=0.5)
    model.train()
    expected = evaluate(model, toys.HalfLabelled(), held_out(), 20, 20)
    numbers = evaluate(model, toys.HalfLabelled(), held_out(), 20, batch)
    assert numbers == pytest.approx(expected, rel=1e-6)
    assert model.training


class Scripted(Objective):
    """Reports the next number of a list at each validation."""

    def __init__(self, script: list[float]):
        super().__init__()
        self.script = script
        self.register_buffer("asked", torch.zeros((), dtype=torch.int64))

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        return {"loss": count(len(batch["x"]), like=batch["x"])}

    def forward(self, model: nn.Module, batch: Batch, turn: str) -> Terms:
        return Terms({"loss": model(batch["x"]).square().sum()})

    def measure(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        self.asked += 1
        return {"score": torch.tensor(self.script[int(self.asked) - 1] * len(batch["x"]))}


def scripted(folder: Path, script: list[float], patience: int, goal: str = "min", steps: int = 20, stop_at: int = 0) -> Trainer:
    torch.manual_seed(0)
    validation = Validation(held_out(), 1, 0, 64, "score", goal, patience)
    keeper = Checkpoints(folder, {}, None, 1, 2)
    hooks: list[Hook] = [validation, Log(folder, 1), Trail(stop_at), keeper, Signals()]
    trainer = toys.trainer(toys.Linear(), Scripted(script), toys.regression(), SGD(lr=0.01), hooks, batch=4, steps=steps)
    keeper.restore(trainer)
    return trainer


@pytest.mark.parametrize(("goal", "sign"), [("min", 1), ("max", -1)])
def test_training_stops_at_best_plus_patience_and_the_best_is_chosen(tmp_path: Path, goal: str, sign: int) -> None:
    script = [sign * value for value in (5.0, 4.0, 3.0, 3.5, 3.0, 9.0, 1.0)]
    trainer = scripted(tmp_path, script, patience=3, goal=goal)
    trainer.fit()
    assert trainer.step == 6
    assert hook(trainer, Validation).best_step == 3
    assert "no better score" in trainer.stop_reason
    best = checkpoint.read(checkpoint.resolve(tmp_path))
    assert best.json("metrics.json")["step"] == 3
    third = hook(trainer, Trail).weights[2]
    assert torch.equal(best.tensors("model.safetensors")["layer.weight"], third["layer.weight"])


def test_patience_survives_resume(tmp_path: Path) -> None:
    script = [5.0, 4.0, 4.5, 4.6, 4.7, 4.8, 1.0, 1.0, 1.0]
    stopped = scripted(tmp_path, script, patience=3, stop_at=4)
    stopped.fit()
    assert stopped.step == 4
    continued = scripted(tmp_path, script, patience=3)
    assert hook(continued, Validation).waited == 2
    continued.fit()
    assert continued.step == 5
    assert hook(continued, Validation).best_step == 2


def test_a_run_that_stopped_early_stays_stopped(tmp_path: Path) -> None:
    script = [5.0, 6.0, 6.0, 1.0, 1.0]
    scripted(tmp_path, script, patience=2).fit()
    again = scripted(tmp_path, script, patience=2)
    again.fit()
    assert again.step == 3
    assert "no better score" in again.stop_reason


def test_a_validation_that_is_not_a_number_is_never_the_best(tmp_path: Path) -> None:
    trainer = scripted(tmp_path, [float("nan"), 2.0, float("nan"), 1.0], patience=0, steps=4)
    trainer.fit()
    assert hook(trainer, Validation).best == 1.0
    assert hook(trainer, Validation).best_step == 4


def test_nothing_but_not_a_number_spends_the_patience(tmp_path: Path) -> None:
    trainer = scripted(tmp_path, [float("nan")] * 3, patience=2)
    trainer.fit()
    assert trainer.step == 2


def test_an_unknown_progress_metric_is_named() -> None:
    validation = Validation(held_out(), 1, 0, 64, "accuracy", "max")
    trainer = toys.trainer(toys.Linear(), toys.Regression(), toys.regression(), hooks=[validation], steps=1)
    with pytest.raises(ConfigError, match="no 'accuracy'; it reports loss"):
        trainer.fit()


# -- logs -------------------------------------------------------------------------------------------------------------------


def test_every_line_has_its_exact_mean(tmp_path: Path) -> None:
    torch.manual_seed(0)
    every = toys.trainer(toys.Linear(), toys.Regression(), toys.regression(), hooks=[Log(tmp_path / "a", 1)], batch=4, steps=9)
    torch.manual_seed(0)
    fifth = toys.trainer(toys.Linear(), toys.Regression(), toys.regression(), hooks=[Log(tmp_path / "b", 5)], batch=4, steps=9)
    for name, trainer in (("a", every), ("b", fifth)):
        (tmp_path / name).mkdir()
        trainer.fit()
    each = [line["train"]["loss"] for line in lines(tmp_path / "a")]
    some = {line["step"]: line["train"]["loss"] for line in lines(tmp_path / "b")}
    assert list(some) == [1, 5, 9]
    assert some[1] == each[0]
    assert some[5] == pytest.approx(sum(each[1:5]) / 4)
    assert some[9] == pytest.approx(sum(each[5:]) / 4)


def test_events_can_be_read_by_tensorboard(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    full_trainer(tmp_path).fit()
    events = accumulator.EventAccumulator(str(tmp_path))
    events.Reload()
    assert {"train/loss", "train/lr", "train/grad_norm", "validation/loss"} <= set(events.Tags()["scalars"])
    logged = {line["step"]: line["train"]["loss"] for line in lines(tmp_path) if "train" in line}
    read = {event.step: event.value for event in events.Scalars("train/loss")}
    assert read == pytest.approx(logged, rel=1e-6)


def test_events_of_a_continued_run_hold_each_step_once(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    full_trainer(tmp_path, extra=(Trail(stop_at=5),)).fit()
    full_trainer(tmp_path).fit()
    events = accumulator.EventAccumulator(str(tmp_path))
    events.Reload()
    assert [event.step for event in events.Scalars("train/loss")] == list(range(1, 11))


def test_lines_after_the_checkpoint_and_broken_ones_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"step": 2}\nnot json\n{"other": 1}\n{"step": 3}\n{"step": 4')
    drop_after(path, 2)
    assert path.read_text() == '{"step": 1}\n{"step": 2}\n'
    drop_after(tmp_path / "absent.jsonl", 2)
    assert not (tmp_path / "absent.jsonl").exists()


# -- checkpoints of a run -----------------------------------------------------------------------------------------------------


def test_the_newest_and_the_best_are_kept(tmp_path: Path) -> None:
    script = [5.0, 1.0, *[2.0] * 18]
    trainer = scripted(tmp_path, script, patience=0, steps=10)
    trainer.fit()
    assert [int(p.name) for p in checkpoint.folders(tmp_path)] == [2, 9, 10]
    assert int(checkpoint.resolve(tmp_path).name) == 2
    assert int(checkpoint.resolve(f"{tmp_path}@last").name) == 10


def test_a_run_is_saved_at_its_end_even_if_nobody_asked(tmp_path: Path) -> None:
    trainer = full_trainer(tmp_path, every=0, save_every=0, steps=5)
    trainer.fit()
    assert [int(p.name) for p in checkpoint.folders(tmp_path)] == [5]


def test_a_failing_disk_is_survived_in_the_middle_but_not_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real, failing = checkpoint.save, {3, 6}

    def save(path: Path, content: dict[str, bytes], team: Team) -> None:
        if int(path.name) in failing:
            raise OSError(28, "No space left on device")
        real(path, content, team)

    monkeypatch.setattr(checkpoint, "save", save)
    trainer = full_trainer(tmp_path, every=0, steps=9)
    trainer.fit()
    assert [int(p.name) for p in checkpoint.folders(tmp_path)] == [9]
    assert caplog.text.count("could not be saved") == 2
    failing.add(12)
    with pytest.raises(CheckpointError, match=r"No space left on device.*continue from step 9"):
        full_trainer(tmp_path, every=0, steps=12).fit()
    assert [int(p.name) for p in checkpoint.folders(tmp_path)] == [9]


def test_rollback_returns_to_a_checkpoint_takes_other_data_and_ends_finite(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    trainer = full_trainer(tmp_path, objective=Explosive(), nonfinite="rollback", shuffle=False, batch=4, steps=12, save_every=2, every=3)
    trainer.fit()
    assert "step 4: a gradient was not finite; returned to step 3 with other data" in caplog.text
    assert trainer.step == 12
    assert trainer.cursor == 4 * 13
    assert all(torch.isfinite(value).all() for value in trainer.model.state_dict().values())
    assert [line["step"] for line in lines(tmp_path)] == list(range(1, 13))
    assert all(line["train"]["loss"] < float("inf") for line in lines(tmp_path))


class AlwaysExplosive(Explosive):
    """Every example is bad from the fourth step on."""

    def forward(self, model: nn.Module, batch: Batch, turn: str) -> Terms:
        bad = torch.where(batch["number"] >= 12, self.bad, 0)
        return super().forward(model, {**batch, "number": bad}, turn)


def test_rollback_gives_up_when_it_does_not_help(tmp_path: Path) -> None:
    trainer = full_trainer(
        tmp_path, objective=AlwaysExplosive(), nonfinite="rollback", shuffle=False, batch=4, steps=12, save_every=2, every=0
    )
    with pytest.raises(NonFiniteError, match="did not help"):
        trainer.fit()
    early = full_trainer(
        tmp_path / "early", objective=AlwaysExplosive(), nonfinite="rollback", shuffle=False, batch=4, save_every=9, every=0
    )
    with pytest.raises(NonFiniteError, match=r"step 4: .* there is no checkpoint yet to return to"):
        early.fit()


def test_updates_that_were_refused_are_counted_over_a_break(tmp_path: Path) -> None:
    skipping: dict[str, Any] = {"objective": Explosive(), "nonfinite": "skip", "shuffle": False, "every": 0, "save_every": 5}
    for steps in (5, 7):  # the fourth is refused
        full_trainer(tmp_path, steps=steps, **skipping).fit()
    assert [line["train"].get("refused_updates") for line in lines(tmp_path)] == [None] * 3 + [1.0] * 4


# -- signals ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_the_continued_run_is_the_same_run(tmp_path: Path, number: signal.Signals) -> None:
    full_trainer(tmp_path / "whole").fit()
    before = signal.getsignal(number)
    stopped = full_trainer(tmp_path / "cut", extra=(Trail(5, number),))
    stopped.fit()
    assert signal.getsignal(number) is before
    assert stopped.step == 5
    assert stopped.stop_reason == f"received {number.name}"
    assert hook(stopped, Signals).received == number
    assert [int(p.name) for p in checkpoint.folders(tmp_path / "cut")][-1] == 5
    full_trainer(tmp_path / "cut").fit()
    ends = [checkpoint.read(checkpoint.resolve(f"{tmp_path / name}@last")) for name in ("whole", "cut")]
    assert ends[0].files["model.safetensors"] == ends[1].files["model.safetensors"]
    assert ends[0].files["ema.safetensors"] == ends[1].files["ema.safetensors"]
    logs = [[{k: v for k, v in line.items() if k != "seconds"} for line in lines(tmp_path / name)] for name in ("whole", "cut")]
    for line in (*logs[0], *logs[1]):
        line["train"].pop("per_second")
        line["train"].pop("mfu", None)
    assert logs[0] == logs[1]
