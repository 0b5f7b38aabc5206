"""The machines learn the digits, in a shortened run."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import weft
from weft.data.base import DataLoader
from weft.runs.assemble import assemble
from weft.runs.run import Run

pytest.importorskip("sklearn")


def independent_pixels(done: Run) -> float:
    """Log-likelihood of the best model whose pixels are independent, which is also its pseudo-likelihood."""
    assert done.data.validation is not None
    train, held = (
        DataLoader(part, 1, torch.device("cpu"), shuffle=False).batch(0, len(part))["image"]
        for part in (done.data.train, done.data.validation)
    )
    p = (train.sum(0) + 0.5) / (len(train) + 1)
    return float((held * p.log() + (1 - held) * (1 - p).log()).sum(1).mean())


@pytest.mark.parametrize("name", ["rbm/digits", "rbm/persistent"])
def test_pixels_are_predicted_far_better_than_independent_ones(name: str, tmp_path: Path) -> None:
    done = assemble(weft.recipe(name, {"train.device": "cpu", "train.steps": 400, "train.eval_every": 400}), tmp_path / "run")
    done.trainer.fit()
    assert done.validation is not None
    assert done.validation.latest["pseudo_log_likelihood"] > independent_pixels(done) + 5
    images = weft.load(tmp_path / "run", device="cpu").model.sample(torch.arange(3), 20)  # type: ignore[operator]
    assert images.shape == (3, 1, 8, 8)
    assert torch.equal(images, images.round())
