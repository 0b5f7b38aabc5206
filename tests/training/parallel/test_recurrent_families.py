"""Recurrent, word and copying models in two processes: the run of one, loss by loss and weight by weight."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import weft
from tests.contracts.tiny import tiny, without_dropout
from tests.training.parallel.processes import together
from tests.training.parallel.test_runs import COMMON, assert_same_run
from weft.core.config import override
from weft.core.errors import ConfigError
from weft.objectives.language.next_token import NextTokenConfig
from weft.training.optimizer.settings import SGD

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of fork, on later Pythons
WINDOWS: dict[str, Any] = {"objective": NextTokenConfig(), "data.lanes": 0}
"""Windows of a text, each from an empty state; one that goes from batch to batch is for one process alone."""
RECIPES: dict[str, dict[str, Any]] = {
    "rnn/text": WINDOWS,
    "lstm/ptb_cpu": WINDOWS,
    "min_gru/text": WINDOWS,
    "word2vec/source": {},
    "word2vec/nce": {},
    "word2vec/softmax": {},
    "fasttext/classify": {},
    "elmo/pretrain": {},
    "tagger/elmo": {},
    "tagger/words": {},
    "rnn_seq2seq/reverse": {},
    "rnn_seq2seq/multi30k": {"train.batch": 2},
    "pointer_generator/names": {},
    "pointer/sort": {},
    "speaker/voices": {},
}
CARRIED = ("rnn/text", "min_gru/text", "word2vec/cbow", "word2vec/hierarchical")


def train(name: str, run: Path, files: Path, processes: int, changes: dict[str, Any]) -> bool:
    """Six steps, without dropout, whose noise is that of a process; by plain descent, as Adam makes much of gradients that are rounding."""
    recipe = tiny(name, files, {**COMMON, "train.steps": 6, "train.eval_every": 3, "train.eval_examples": 5, "optim": SGD(lr=0.05)})
    weft.train(override(recipe, {**without_dropout(recipe), **changes, "parallel.replicate": processes}), run)
    return True


@pytest.mark.parametrize("name", RECIPES)
def test_two_processes_are_one(name: str, tmp_path: Path) -> None:
    one, many = tmp_path / "one", tmp_path / "many"
    train(name, one, tmp_path, 1, RECIPES[name])
    together(2, tmp_path / "a", train, name, many, tmp_path, 2, RECIPES[name])
    assert_same_run(one, many, 6, 1e-5)


@pytest.mark.parametrize("name", CARRIED)
def test_a_state_that_goes_from_batch_to_batch_is_refused_in_one_sentence(name: str, tmp_path: Path) -> None:
    def refused() -> str:
        with pytest.raises(ConfigError) as error:
            train(name, tmp_path / "run", tmp_path, 2, {})
        return str(error.value)

    tiny(name, tmp_path)  # its files, before two processes write them
    assert all("carries a state from batch to batch; train it in one process" in said for said in together(2, tmp_path / "a", refused))
