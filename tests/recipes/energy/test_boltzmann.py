"""The machine fills in digits better than the mean image, in a shortened run."""

from __future__ import annotations

from pathlib import Path

import pytest

import weft
from weft.runs.assemble import assemble

MEAN_IMAGE = 0.2226


def test_the_lower_half_is_filled_in(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    changes = {"train.device": "cpu", "train.steps": 150, "train.eval_every": 150, "train.eval_examples": 128, "model.hidden": 8}
    done = assemble(weft.recipe("boltzmann/digits", {**changes, "objective.hidden": 8}), tmp_path / "run")
    done.trainer.fit()
    assert done.validation is not None
    assert done.validation.latest["completion_error"] < MEAN_IMAGE - 0.02
