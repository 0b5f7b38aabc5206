"""The classifiers learn what they are for, in a shortened run."""

from __future__ import annotations

from pathlib import Path

import pytest

import weft
from tests.contracts.tiny import table_file
from weft.runs.assemble import assemble

SHORT = {"train.device": "cpu", "train.save_every": 0, "optim.schedule.warmup": 10}


def test_digits(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    done = assemble(weft.recipe("classifier/digits", SHORT | {"train.steps": 300, "train.eval_every": 300}), tmp_path / "run")
    done.trainer.fit()
    assert done.validation is not None
    assert done.validation.latest["accuracy"] >= 0.95


def test_a_table_of_numbers(tmp_path: Path) -> None:
    """The class is the sign of x + y."""
    changes = SHORT | {"train.steps": 200, "train.eval_every": 200, "data.path": str(table_file(tmp_path)), "optim.lr": 1e-2}
    done = assemble(weft.recipe("classifier/table", changes), tmp_path / "run")
    done.trainer.fit()
    assert done.validation is not None
    assert done.validation.latest["accuracy"] >= 0.85


def test_mnist_is_784_512_10() -> None:
    made = weft.recipe("classifier/mnist").resolve({"features": 784, "classes": 10})
    assert sum(p.numel() for p in made.model.build().parameters()) == 407_050
