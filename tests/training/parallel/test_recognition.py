"""Recognisers in two processes: the run of one, loss by loss and weight by weight."""

from __future__ import annotations

from pathlib import Path

import pytest

import weft
from tests.contracts.tiny import tiny, without_dropout
from tests.training.parallel.processes import together
from tests.training.parallel.test_runs import COMMON, assert_same_run
from weft.core.config import override
from weft.training.optimizer.settings import SGD

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of fork, on later Pythons
RECIPES = ("conformer_ctc/digits", "transducer/digits", "transducer/pruned", "las/digits", "conformer_aed/digits")


def train(name: str, run: Path, files: Path, processes: int) -> bool:
    """Six steps, without dropout, whose noise is that of a process; by plain descent, as Adam makes much of gradients that are rounding."""
    recipe = tiny(name, files, {**COMMON, "train.steps": 6, "train.eval_every": 3, "train.eval_examples": 5, "optim": SGD(lr=0.01)})
    weft.train(override(recipe, {**without_dropout(recipe), "parallel.replicate": processes}), run)
    return True


@pytest.mark.parametrize("name", RECIPES)
def test_two_processes_are_one(name: str, tmp_path: Path) -> None:
    one, many = tmp_path / "one", tmp_path / "many"
    train(name, one, tmp_path, 1)
    together(2, tmp_path / "a", train, name, many, tmp_path, 2)
    assert_same_run(one, many, 6, 1e-5)
