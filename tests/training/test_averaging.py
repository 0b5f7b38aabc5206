"""Averaged SGD: the mean of the weights since it began, begun by hand or where validation shows no progress, exact when continued."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import weft
from tests.contracts.tiny import tiny
from weft.runs.assemble import assemble
from weft.training.averaging import PolyakAverage
from weft.training.checkpoint import checkpoint
from weft.training.hooks import Hook, Validation
from weft.training.optimizer.settings import ASGD


class Weights(Hook):
    name = "weights"

    def __init__(self) -> None:
        self.all: list[torch.Tensor] = []

    def after_step(self, trainer: Any) -> None:
        self.all.append(trainer.model.state_dict()["embed.weight"].clone())


class Stop(Hook):
    def after_step(self, trainer: Any) -> None:
        if trainer.step == 7:
            trainer.stop_reason = "the test asked for it"


def recipe(folder: Path, **optim: Any) -> Any:
    return tiny("lstm/ptb", folder, {"optim": ASGD(lr=1.0, clip_norm=0.25, **optim), "train.device": "cpu", "train.eval_examples": 4})


def test_the_average_is_the_mean_of_the_weights_since_it_began(tmp_path: Path) -> None:
    seen = Weights()
    run = assemble(recipe(tmp_path, average_from=5), tmp_path / "run", extra=[seen])
    run.trainer.fit()
    found = checkpoint.read(checkpoint.resolve(f"{tmp_path / 'run'}@last")).tensors("ema.safetensors")
    torch.testing.assert_close(found["embed.weight"], torch.stack(seen.all[4:]).mean(0))
    loaded = weft.load(f"{tmp_path / 'run'}@last", "cpu")
    assert torch.equal(loaded.model.state_dict()["embed.weight"], found["embed.weight"])


def test_it_begins_where_validation_is_worse_than_long_ago() -> None:
    hook = PolyakAverage(0, nonmono=2)
    validation: Any = object.__new__(Validation)
    validation.metric, validation.goal, validation.latest_step = "loss", "min", 0
    trainer: Any = SimpleNamespace(hooks=[validation], step=0)
    values = [5.0, 4.0, 3.0, 3.5, 3.6, 3.4]  # 3.6 is better than 5 and 4; 3.4 is worse than 3, which is now older than two
    shares = []
    for number, value in enumerate(values, 1):
        validation.latest, validation.latest_step = {"loss": value}, 10 * number
        trainer.step = 10 * number + 1
        shares.append(hook.share(trainer))
    assert hook.began == 61
    assert shares == [1.0] * 6
    trainer.step = 64
    assert hook.share(trainer) == 1 / 4


def test_a_continued_run_has_the_same_average(tmp_path: Path) -> None:
    made = recipe(tmp_path, nonmono=0)
    for name, extra in (("whole", []), ("cut", [Stop()]), ("cut", [])):
        assemble(made, tmp_path / name, extra=extra).trainer.fit()
    whole, cut = (checkpoint.read(checkpoint.resolve(f"{tmp_path / name}@last")) for name in ("whole", "cut"))
    for file in ("model.safetensors", "ema.safetensors", "training.safetensors"):
        assert whole.files[file] == cut.files[file]
    assert whole.json("training.json")["hooks"]["average"] == cut.json("training.json")["hooks"]["average"]


def test_a_damaged_state_is_refused() -> None:
    with pytest.raises(ValueError, match="began"):
        PolyakAverage(0, 5).load_state({}, {"began": -1, "seen": 0, "values": []})
