"""Object detection as set prediction."""

from __future__ import annotations

from weft.data.images.shapes import ShapesConfig
from weft.models.vision.detr import DETRConfig
from weft.objectives.detection import DetectionConfig
from weft.recipes.base import Progress, Recipe
from weft.training.optimizer.settings import AdamW
from weft.training.schedule import Schedule
from weft.training.settings import Train


def shapes() -> Recipe:
    """Circles, squares and triangles on a noisy ground.

    Run:      weft train detr/shapes
              weft sample runs/detr-shapes --out boxes.png
    """
    return Recipe(
        data=ShapesConfig(),
        model=DETRConfig(),
        objective=DetectionConfig(),
        optim=AdamW(lr=1e-3, weight_decay=1e-4, clip_norm=1.0, schedule=Schedule(kind="cosine", warmup=100, min_lr_ratio=0.05)),
        train=Train(steps=4000, batch=32, log_every=200, eval_every=1000, eval_examples=400),
        progress=Progress(metric="ap50", goal="max"),
    )
