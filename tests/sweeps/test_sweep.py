"""Sweeps: ranked by validation, continued where they stopped, with trials that end as if they had never been paused."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

import weft
from weft.core import config
from weft.core.errors import CheckpointError, ConfigError
from weft.recipes.base import Recipe
from weft.sweeps import sweep as sweeping
from weft.sweeps.result import Sweep
from weft.sweeps.trial import Outcome, Task, advance
from weft.training.checkpoint import checkpoint

SPACE = {"optim.lr": "1e-5..3e-2:log:3", "model.width": [8, 16]}


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("to be or not to be that is the question. " * 40)
    small = {"data.context": 16, "model.layers": 1, "model.heads": 2, "train.batch": 4, "train.log_every": 2, "train.device": "cpu"}
    return weft.recipe("gpt/text", {**small, "data.path": str(path), "train.steps": 8, "train.eval_every": 2})


def tried(recipe: Recipe, folder: Path, **changes: Any) -> Sweep:
    given: dict[str, Any] = {"settings": SPACE, "progress": False, **changes}
    return weft.sweep(recipe, out=folder, **given)


@pytest.fixture(scope="module")
def grid(recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    return tried(recipe, tmp_path_factory.mktemp("runs") / "sweep")


def weights(path: Path) -> Any:
    return checkpoint.find(path / "checkpoints" / "00000008").files["model.safetensors"]


class Counting:
    """Trains as usual and notes which trial was taken how far; interrupted in place of the trial of a number."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, stop: int = 0):
        self.seen: list[tuple[str, int]] = []
        self.stop = stop
        monkeypatch.setattr(sweeping, "advance", self)

    def __call__(self, task: Task) -> Outcome:
        if len(self.seen) + 1 == self.stop:
            raise KeyboardInterrupt
        self.seen.append((task.path.name, task.steps))
        return advance(task)


def test_a_grid_is_ranked_by_validation(grid: Sweep) -> None:
    values = [trial.value for trial in grid.ranked]
    assert len(values) == 6 and None not in values
    assert values == sorted(values)  # type: ignore[type-var]
    best = weft.load(grid.best.path)
    assert grid.best.value == best.metrics["validation"]["loss"] == pytest.approx(weft.evaluate(best)["loss"], rel=1e-4)
    assert grid.best.settings["optim.lr"] == 0.03


def test_what_it_leaves_behind(grid: Sweep) -> None:
    rows = list(csv.DictReader((grid.path / "trials.csv").read_text().splitlines()))
    assert [float(row["loss"]) for row in rows] == [trial.value for trial in grid.ranked]
    page = (grid.path / "report.html").read_text()
    assert "Sweep of gpt/text" in page and "validation loss by optim.lr" in page and "optim.lr (log scale)" in page
    assert "chosen on validation data, which flatters its loss" in page
    assert grid.command.split()[:3] == ["weft", "train", "gpt/text"] and "--optim.lr 0.03" in grid.command


def test_it_shows_itself(grid: Sweep) -> None:
    assert repr(grid).startswith(f"Sweep(gpt/text: 6 trials in {grid.path}, best optim.lr=0.03,model.width=")
    assert grid._repr_html_().count("<tr>") == 7
    assert {len(column) for column in grid.columns.values()} == {6}
    assert grid.model.generate("to", max_new_tokens=2, seed=0).tokens == 2


def test_the_same_sweep_again_trains_nothing(grid: Sweep, recipe: Recipe, monkeypatch: pytest.MonkeyPatch) -> None:
    counting = Counting(monkeypatch)
    again = tried(recipe, grid.path)
    assert not counting.seen
    assert [vars(trial) for trial in again.ranked] == [vars(trial) for trial in grid.ranked]


def test_another_space_adds_to_a_sweep_and_another_recipe_is_refused(grid: Sweep, recipe: Recipe, monkeypatch: pytest.MonkeyPatch) -> None:
    counting = Counting(monkeypatch)
    more = tried(recipe, grid.path, settings={"optim.lr": [0.03], "model.width": [8, 4]})
    assert counting.seen == [("optim.lr=0.03,model.width=4", 8)]
    assert len(more.trials) == 7
    with pytest.raises(ConfigError, match=r"another recipe; use another folder with --out\. It differs in:\n  train.steps: 8 -> 9"):
        tried(config.override(recipe, {"train.steps": 9}), grid.path)


def test_an_interrupted_sweep_goes_on(grid: Sweep, recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counting = Counting(monkeypatch, stop=3)
    with pytest.raises(KeyboardInterrupt):
        tried(recipe, tmp_path)
    counting.stop = 0
    found = tried(recipe, tmp_path)
    assert len(counting.seen) == 6
    values = {trial.path.name: trial.value for trial in grid.trials}
    assert {trial.path.name: trial.value for trial in found.trials} == {name: values[name] for name, _ in counting.seen}


def test_halving_resumes_the_better_ones_exactly(grid: Sweep, recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counting = Counting(monkeypatch)
    found = tried(recipe, tmp_path, method="halving", eta=2)
    assert [steps for _, steps in counting.seen] == [2] * 6 + [4] * 3 + [8]
    assert [trial.steps for trial in found.ranked] == [8, 4, 4, 2, 2, 2]
    early = sorted(json.loads((tmp_path / "sweep.json").read_text())["reached"].values(), key=lambda trial: trial["rungs"]["2"]["value"])
    assert all("4" in trial["rungs"] for trial in early[:3]) and not any("4" in trial["rungs"] for trial in early[3:])
    winner = found.best
    assert weights(winner.path) == weights(grid.path / winner.path.name), "as if it had never been paused"
    assert (winner.path / "report.html").exists() and not (found.ranked[-1].path / "report.html").exists()


def test_random_and_hyperband_draw_their_trials(recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = {"optim.lr": "1e-4..1e-2:log", "model.width": [8, 16]}
    assert [bracket.trials for _, bracket in sweeping.plan(sweeping.space.read(recipe, free), recipe, "auto", 0, 3, 1)] == [16]
    [(two, _)] = sweeping.plan(sweeping.space.read(recipe, free), recipe, "auto", 2, 3, 1)
    counting = Counting(monkeypatch)
    tried(recipe, tmp_path, settings=free, trials=2)
    assert [name for name, _ in counting.seen] == [sweeping.space.folder_name(settings) for settings in two]
    planned = sweeping.plan(sweeping.space.read(recipe, free), recipe, "hyperband", 0, 2, 1)
    assert [(len(start), bracket.rungs) for start, bracket in planned] == [(4, (2, 4, 8)), (3, (4, 8)), (3, (8,))]
    assert len({str(settings) for start, _ in planned for settings in start}) == 10


def test_a_trial_that_cannot_be_trained_is_told_and_left_out(recipe: Recipe, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = tried(recipe, tmp_path, settings={"model.width": [8, 9], "optim.lr": [1e-3]}, progress=True)
    assert [trial.error for trial in found.ranked] == ["", "model.width 9 is not a multiple of model.heads 2"]
    assert "failed: model.width 9 is not" in capsys.readouterr().out
    assert "is not a multiple" in (tmp_path / "report.html").read_text()
    none = tried(recipe, tmp_path / "none", settings={"model.width": [9]})
    with pytest.raises(CheckpointError, match=r"no trial has a value to choose by; the first said: model\.width 9"):
        _ = none.best


def test_several_processes_find_the_same(grid: Sweep, recipe: Recipe, tmp_path: Path) -> None:
    found = tried(recipe, tmp_path, settings={"optim.lr": [1e-5, 0.03], "model.width": [8]}, jobs=2)
    values = {trial.path.name: trial.value for trial in grid.trials}
    assert [trial.value for trial in found.ranked] == [values[trial.path.name] for trial in found.ranked]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"jobs": 0}, "--jobs must be at least 1"),
        ({"method": "grid", "trials": 3}, "--trials 3: a grid tries every combination"),
        ({"method": "halving", "eta": 1}, "--eta must be at least 2"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_made(recipe: Recipe, tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        tried(recipe, tmp_path / "sweep", **changes)
    assert not (tmp_path / "sweep").exists()


def test_a_sweep_needs_validation(recipe: Recipe, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--train\.eval_every 0: a sweep chooses by validation"):
        tried(config.override(recipe, {"train.eval_every": 0}), tmp_path)
