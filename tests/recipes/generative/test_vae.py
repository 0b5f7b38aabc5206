"""The autoencoders learn what they are for, in a shortened run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import weft
from weft.data.images.digits import DigitsConfig
from weft.runs.assemble import assemble
from weft.runs.run import Run
from weft.training.hooks import evaluate

pytest.importorskip("sklearn")


def train(name: str, out: Path, changes: dict[str, Any]) -> Run:
    short = {"train.device": "cpu", "train.save_every": 0, "optim.schedule.warmup": 10, "optim.lr": 3e-3}
    done = assemble(weft.recipe(name, short | changes), out)
    done.trainer.fit()
    return done


def independent_pixels() -> float:
    """Loss in nats of the best model whose pixels are independent."""
    data = DigitsConfig(binarise="threshold").build()
    assert data.validation is not None
    train, held = (part.batch(index := torch.arange(len(part)), index)["image"] for part in (data.train, data.validation))
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


def test_a_model_that_saw_hidden_squares_fills_them_in_better(tmp_path: Path) -> None:
    """Both are measured with squares hidden; only one was trained so."""
    short = {"train.steps": 700, "train.eval_every": 700, "optim.lr": 2e-3, "model.hidden": (128,)}
    masked = train("vae/inpainting", tmp_path / "masked", short)
    plain = train("vae/inpainting", tmp_path / "plain", {**short, "objective.mask_size": 0.0, "progress.metric": "loss"})
    assert masked.validation is not None
    objective, source, number = masked.trainer.objective, masked.validation.source, masked.validation.examples
    errors = [evaluate(run.trainer.model, objective, source, number, 256)["hidden_error"] for run in (masked, plain)]
    assert errors[0] < 0.85 * errors[1], errors


def test_m2_learns_classes_from_few_labels(tmp_path: Path) -> None:
    done = train("vae/m2_digits", tmp_path / "run", {"train.steps": 200, "train.eval_every": 200, "model.hidden": (128,)})
    assert done.validation is not None
    assert done.validation.latest["accuracy"] >= 0.7
