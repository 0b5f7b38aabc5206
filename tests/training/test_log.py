"""The log is JSON that any reader takes, whatever the numbers."""

from __future__ import annotations

import json
import logging
import math
import shutil
from pathlib import Path

import pytest

from tests.training.test_hooks import full_trainer, lines
from weft.core.errors import CheckpointError
from weft.training.hooks import Hook
from weft.training.log import strict
from weft.training.trainer import Trainer


class Deletes(Hook):
    """Somebody who deletes something after a step."""

    name = "deletes"

    def __init__(self, path: Path):
        self.path = path

    def after_step(self, trainer: Trainer) -> None:
        if trainer.step == 4:
            shutil.rmtree(self.path) if self.path.is_dir() else self.path.unlink()


def test_a_run_whose_folder_was_deleted_does_not_end_as_if_all_were_well(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="run: was deleted while it was trained"):
        full_trainer(tmp_path / "run", extra=(Deletes(tmp_path / "run"),)).fit()
    assert not (tmp_path / "run").exists()


def test_a_log_that_was_deleted_is_begun_again_and_it_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="weft"):
        full_trainer(tmp_path, extra=(Deletes(tmp_path / "metrics.jsonl"),)).fit()
    assert "metrics.jsonl was deleted while it was written; its lines so far are lost" in caplog.text
    assert lines(tmp_path)[-1]["step"] == 10


def test_what_is_not_finite_becomes_null() -> None:
    line = {"step": 3, "train": {"loss": math.nan, "grad_norm": math.inf, "lr": 0.1}, "seconds": 1.5}
    told = json.loads(json.dumps(strict(line), allow_nan=False))
    assert told == {"step": 3, "train": {"loss": None, "grad_norm": None, "lr": 0.1}, "seconds": 1.5}
