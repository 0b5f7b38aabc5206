"""Set prediction: every object has a query, and a model that tells all of them has no loss and finds everything."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from weft.core.errors import ConfigError
from weft.data.images.shapes import ShapesConfig, overlap
from weft.objectives.detection import DetectionConfig
from weft.training.means import Means
from weft.visual.detections import detected


class Knows:
    """Tells the objects of an image in another order, and nothing else."""

    training, config = False, SimpleNamespace(queries=6)

    def __init__(self, batch: dict[str, torch.Tensor], sure: float = 40.0):
        size, most = batch["label"].shape
        self.logits, self.boxes = torch.zeros(size, 6, 4), torch.full((size, 6, 4), 0.5)
        self.logits[..., 3] = sure
        for i in range(size):
            for j in range(most):
                if batch["label"][i, j] >= 0:
                    self.logits[i, 5 - j] = torch.eye(4)[batch["label"][i, j]] * sure
                    self.boxes[i, 5 - j] = batch["boxes"][i, j]

    def detect(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        first = int(image[0, 0, 0, 0]) if image.numel() == len(image) else 0
        return self.logits[first : first + len(image)], self.boxes[first : first + len(image)]


def batch_of(number: int) -> dict[str, torch.Tensor]:
    made = ShapesConfig(examples=number, validation=0.0, side=32).build().train
    index = torch.arange(number)
    return made.batch(index, index)


def test_a_model_that_knows_everything_is_right() -> None:
    batch = batch_of(12)
    objective, model = DetectionConfig().build(), Knows(batch)
    means = Means(objective)
    terms = objective(model, batch, "")
    terms.metrics |= objective.measure(model, batch)  # type: ignore[arg-type]
    means.add("", terms, objective.counts(batch))
    found = means.read()
    assert found["box"] == pytest.approx(0, abs=1e-6) and found["giou"] == pytest.approx(0, abs=1e-5)
    assert found["ap50"] == pytest.approx(1.0) and found["accuracy"] == 1.0 and found["loss"] == pytest.approx(0, abs=1e-4)


def test_too_many_objects_are_refused() -> None:
    batch = batch_of(12)
    model = Knows(batch)
    model.logits, model.boxes = model.logits[:, :1], model.boxes[:, :1]
    with pytest.raises(ConfigError, match="more than --model"):
        DetectionConfig().build()(model, batch, "")


def test_shapes_are_a_function_of_the_seed_and_do_not_hide_each_other() -> None:
    batch, again = batch_of(30), batch_of(30)
    assert all(torch.equal(batch[name], again[name]) for name in batch)
    assert batch["image"].shape == (30, 3, 32, 32) and batch["image"].min() >= 0 and batch["image"].max() <= 1
    for boxes, label in zip(batch["boxes"].numpy(), batch["label"], strict=True):
        there = [box for box, kind in zip(boxes, label.tolist(), strict=True) if kind >= 0]
        assert there and all(overlap(one, other) <= 0.25 for i, one in enumerate(there) for other in there[:i])


def test_frames_are_drawn_around_what_is_found() -> None:
    batch = batch_of(2)
    shown = detected(Knows(batch), batch["image"])  # type: ignore[arg-type]
    assert shown.shape == (2, 3, 64, 64)
    plain = batch["image"].repeat_interleave(2, 2).repeat_interleave(2, 3)
    assert 20 < (shown != plain).any(1)[0].sum() < 64 * 64 / 2
