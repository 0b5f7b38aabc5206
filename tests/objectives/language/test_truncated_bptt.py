"""A recurrent model is trained with a state that goes from batch to batch, and continues exactly where it was stopped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.contracts.tiny import text_file
from tests.recurrent import GRUConfig, registered
from weft.core.errors import CapabilityError, ConfigError
from weft.data.text.token_windows import TextConfig
from weft.models.language.gpt import TINY
from weft.objectives.language.truncated_bptt import TruncatedBPTTConfig
from weft.recipes.base import Recipe
from weft.runs.assemble import assemble
from weft.runs.load import load
from weft.runs.run import Run
from weft.training.hooks import Hook
from weft.training.optimizer.settings import AdamW
from weft.training.settings import Train

LANES, CONTEXT = 4, 8
TRAIN: dict[str, Any] = {
    "steps": 30,
    "batch": LANES,
    "eval_every": 10,
    "eval_examples": 16,
    "save_every": 5,
    "log_every": 5,
    "device": "cpu",
}


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    with registered():
        yield


def recipe(folder: Path, lanes: int = LANES, model: Any = None, **train: Any) -> Recipe:
    data = TextConfig(path=str(text_file(folder)), context=CONTEXT, lanes=lanes)
    return Recipe(
        data=data, model=model or GRUConfig(), objective=TruncatedBPTTConfig(), optim=AdamW(lr=0.01), train=Train(**TRAIN | train)
    )


class Killed(BaseException):
    """As a process that is ended from outside."""


class KillAt(Hook):
    name = "kill"

    def __init__(self, step: int):
        self.step = step

    def after_step(self, trainer: Any) -> None:
        if trainer.step == self.step:
            raise Killed


def weights(run: Run) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in run.trainer.model.state_dict().items()}


@pytest.mark.parametrize(("batch", "micro"), [(4, 0), (4, 2), (2, 0)])
def test_a_killed_run_goes_on_to_the_same_weights(tmp_path: Path, batch: int, micro: int) -> None:
    settings = {"batch": batch, "micro_batch": micro}
    whole = assemble(recipe(tmp_path, **settings), tmp_path / "whole")
    whole.trainer.fit()
    with pytest.raises(Killed):
        assemble(recipe(tmp_path, **settings), tmp_path / "cut", extra=[KillAt(13)]).trainer.fit()
    again = assemble(recipe(tmp_path, **settings), tmp_path / "cut")
    assert again.trainer.step == 10
    again.trainer.fit()
    assert all(torch.equal(value, weights(whole)[name]) for name, value in weights(again).items())
    states = [run.trainer.objective.state_dict() for run in (whole, again)]
    assert states[0]["carried_h"].abs().sum() > 0
    assert all(torch.equal(value, states[1][name]) for name, value in states[0].items())
    first, last = (assemble(recipe(tmp_path, steps=n), tmp_path / f"loss{n}") for n in (1, 30))
    for run in (first, last):
        run.trainer.fit()
    assert last.validation and first.validation and last.validation.latest["loss"] < first.validation.latest["loss"]


def test_the_state_is_that_of_reading_all_before_and_begins_anew_with_an_epoch(tmp_path: Path) -> None:
    run = assemble(recipe(tmp_path, steps=10_000), tmp_path / "run")
    trainer: Any = run.trainer
    data: Any = run.data.train
    for _ in range(5):
        before = {name: value.clone() for name, value in trainer.model.state_dict().items()}
        trainer.run_step()
    twin = GRUConfig(vocabulary=trainer.model.config.vocabulary).build()
    twin.load_state_dict(before)
    last = trainer.source.batch(4 * LANES, LANES)
    state = twin.new_state()
    state.add_rows(LANES)
    twin.eval()
    trainer.model.load_state_dict(before)  # with weights that stand still the state is that of the whole lane
    trainer.objective.bind(trainer.model)
    trainer.model.train()
    with torch.no_grad():
        for step in range(5):
            trainer.objective(trainer.model, trainer.source.batch(step * LANES, LANES), "")
            trainer.objective.after_update(trainer.model, "")
        lanes = torch.stack([data.tokens[lane * data.windows * CONTEXT :][: 5 * CONTEXT] for lane in range(LANES)]).long()
        twin.hidden(lanes, state)
        assert torch.equal(lanes[:, -CONTEXT:], last["ids"])
        torch.testing.assert_close(trainer.objective.carried_h, state.tensors["h"])
        epoch = trainer.source.batch(len(data), LANES)
        assert epoch["begins"].all() and torch.equal(epoch["ids"], trainer.source.batch(0, LANES)["ids"])
        trainer.objective(trainer.model, epoch, "")
        trainer.objective.after_update(trainer.model, "")
        begun = twin.new_state()
        begun.add_rows(LANES)
        twin.hidden(lanes[:, :CONTEXT], begun)
        torch.testing.assert_close(trainer.objective.carried_h, begun.tensors["h"])


def test_a_carried_state_makes_a_difference_and_validation_does_not_move_it(tmp_path: Path) -> None:
    run = assemble(recipe(tmp_path), tmp_path / "run")
    trainer: Any = run.trainer
    for _ in range(3):
        trainer.run_step()
    carried = trainer.objective.carried_h.clone()
    batch = trainer.source.batch(3 * LANES, LANES)
    trainer.model.eval()
    anew = trainer.objective(trainer.model, batch, "").sums["loss"]
    trainer.objective.after_update(trainer.model, "")
    assert torch.equal(trainer.objective.carried_h, carried)
    trainer.model.train()
    assert trainer.objective(trainer.model, batch, "").sums["loss"] != anew


def test_the_trained_model_continues_a_text(tmp_path: Path) -> None:
    assemble(recipe(tmp_path), tmp_path / "run").trainer.fit()
    loaded = load(tmp_path / "run", "cpu")
    made = loaded.generate("the cat", max_new_tokens=20, temperature=0.0)
    assert (made.tokens, made.finish_reason) == (20, "length")


def test_what_cannot_be_carried_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"give --data\.lanes as many as --train\.batch"):
        assemble(recipe(tmp_path, lanes=0), tmp_path / "run")
    with pytest.raises(ConfigError, match=r"--train\.batch 4 is more than --data\.lanes 3, so a batch would hold two windows of one lane"):
        assemble(recipe(tmp_path, lanes=3), tmp_path / "run")
    with pytest.raises(CapabilityError, match="GPT has no recurrent state to carry"):
        assemble(recipe(tmp_path, model=TINY), tmp_path / "run")
    assert not (tmp_path / "run").exists()
