"""A run goes on with as many threads as it began with: their number decides the order of sums, and so the last bits."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import weft
from tests.contracts.tiny import tiny
from weft.recipes.base import Recipe
from weft.runs.run import Run
from weft.training.checkpoint import checkpoint
from weft.training.hooks import Hook
from weft.training.trainer import Trainer


class Seen(Hook):
    name = "seen"

    def __init__(self) -> None:
        self.threads: set[int] = set()

    def after_step(self, trainer: Trainer) -> None:
        self.threads.add(torch.get_num_threads())


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def recipe(folder: Path, steps: int) -> Recipe:
    few = {"train.device": "cpu", "train.save_every": 2}
    return tiny("classifier/digits", folder, {**few, "train.steps": steps})


def weights(run: Run) -> list[bytes]:
    return [value.numpy().tobytes() for value in run.trainer.model.state_dict().values()]


def forget_threads(run: Path) -> None:
    """Make the checkpoints those of a version that did not save it."""
    for path in checkpoint.folders(run):
        found = checkpoint.read(path)
        state = {name: value for name, value in found.json("training.json").items() if name != "threads"}
        checkpoint.save(path, {**found.files, "training.json": checkpoint.encode(state)})


def test_a_run_goes_on_with_the_threads_it_began_with(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    torch.set_num_threads(1)
    whole = weft.train(recipe(tmp_path, 4), out=tmp_path / "whole")
    weft.train(recipe(tmp_path, 2), out=tmp_path / "parts")
    torch.set_num_threads(2)
    seen = Seen()
    with caplog.at_level(logging.WARNING, logger="weft"):
        parts = weft.train(recipe(tmp_path, 4), out=tmp_path / "parts", extra=[seen])
    assert seen.threads == {1}
    assert "goes on with 1 threads, as it began, not with the 2 of this process" in caplog.text
    assert weights(parts) == weights(whole)
    assert json.loads((tmp_path / "parts" / "environment.json").read_text())["threads"] == 1
    assert torch.get_num_threads() == 2, "what comes after the run has its own number again"


def test_a_run_that_began_before_threads_were_recorded_is_known_by_its_machine(tmp_path: Path) -> None:
    torch.set_num_threads(1)
    weft.train(recipe(tmp_path, 2), out=tmp_path / "run")
    path = tmp_path / "run" / "environment.json"
    facts = json.loads(path.read_text())
    del facts["threads"]
    path.write_text(json.dumps(facts | {"machine": "some processor, 1 threads"}))
    forget_threads(tmp_path / "run")
    torch.set_num_threads(2)
    seen = Seen()
    weft.train(recipe(tmp_path, 4), out=tmp_path / "run", extra=[seen])
    assert seen.threads == {1}


def test_the_checkpoint_says_it_too(tmp_path: Path) -> None:
    torch.set_num_threads(1)
    weft.train(recipe(tmp_path, 2), out=tmp_path / "run")
    (tmp_path / "run" / "environment.json").write_text('{"threads": "many"}')
    torch.set_num_threads(2)
    seen = Seen()
    weft.train(recipe(tmp_path, 4), out=tmp_path / "run", extra=[seen])
    assert seen.threads == {1}


def test_where_nothing_says_it_there_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    weft.train(recipe(tmp_path, 2), out=tmp_path / "run")
    (tmp_path / "run" / "environment.json").unlink()
    forget_threads(tmp_path / "run")
    with caplog.at_level(logging.WARNING, logger="weft"):
        weft.train(recipe(tmp_path, 4), out=tmp_path / "run")
    assert "does not say with how many threads it began" in caplog.text


def test_a_new_run_takes_the_threads_of_its_process(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    torch.set_num_threads(2)
    seen = Seen()
    weft.train(recipe(tmp_path, 2), out=tmp_path / "run", extra=[seen])
    assert seen.threads == {2}
    assert "threads" not in caplog.text
