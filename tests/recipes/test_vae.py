"""The autoencoders learn what they are for, in a shortened run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import weft
from weft import run
from weft.data.base import TensorDataset
from weft.data.digits import DigitsConfig
from weft.run import Run

pytest.importorskip("sklearn")


def train(name: str, out: Path, changes: dict[str, Any]) -> Run:
    short = {"train.device": "cpu", "train.save_every": 0, "optim.schedule.warmup": 10, "optim.lr": 3e-3}
    done = run.assemble(weft.recipe(name, short | changes), out)
    done.trainer.fit()
    return done


def independent_pixels() -> float:
    """Loss in nats of the best model whose pixels are independent."""
    data = DigitsConfig(binary=True).build()
    assert isinstance(data.train, TensorDataset)
    assert isinstance(data.validation, TensorDataset)
    train, held = data.train.tensors["image"], data.validation.tensors["image"]
    p: Tensor = (train.sum(0) + 1) / (len(train) + 2)
    return float(-(held * p.log() + (1 - held) * (1 - p).log()).sum(1).mean())


def test_the_bound_is_far_above_that_of_independent_pixels(tmp_path: Path) -> None:
    done = train("vae/digits", tmp_path / "run", {"train.steps": 300, "train.eval_every": 300})
    assert done.validation is not None
    assert done.validation.latest["loss"] < independent_pixels() - 4


def test_few_labels_are_enough_to_classify(tmp_path: Path) -> None:
    done = train("vae/semi_supervised", tmp_path / "run", {"train.steps": 200, "train.eval_every": 200})
    assert done.validation is not None
    assert done.validation.latest["accuracy"] >= 0.75
    images = done.trainer.model.sample(torch.arange(3))  # type: ignore[operator]
    assert images.shape == (3, 1, 8, 8)
