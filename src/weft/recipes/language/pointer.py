"""Pointer networks."""

from __future__ import annotations

from weft.data.tables.pointing import PointingSequencesConfig, PointingTaskConfig
from weft.models.language.pointer_network import PointerNetworkConfig
from weft.objectives.pointing import PointingConfig
from weft.recipes.base import Progress, Recipe
from weft.training.optimizer.settings import Adam
from weft.training.schedule import Schedule
from weft.training.settings import Train

EXACT = Progress(metric="exact", goal="max")


def sort() -> Recipe:
    """Five to ten numbers in order; it sorts twenty as well.

    Run:      weft train pointer/sort
              weft evaluate runs/pointer-sort --data.min-length 20 --data.max-length 20
    """
    return Recipe(
        data=PointingTaskConfig(task="sort"),
        model=PointerNetworkConfig(encoder="set", layers=0, mask_chosen=True, width=64),
        objective=PointingConfig(),
        optim=adam(),
        train=Train(steps=1000, batch=64, log_every=100, eval_every=250, eval_examples=1000),
        progress=EXACT,
    )


def hull() -> Recipe:
    """The convex hull of five to ten points of the plane.

    Run:      weft train pointer/hull
              weft evaluate runs/pointer-hull --data.min-length 20 --data.max-length 20
    """
    return Recipe(
        data=PointingTaskConfig(task="hull"),
        model=PointerNetworkConfig(encoder="set", layers=3, mask_chosen=True, width=64),
        objective=PointingConfig(hull_area=True),
        optim=adam(),
        train=Train(steps=2000, batch=64, log_every=100, eval_every=500, eval_examples=1000),
        progress=EXACT,
    )


def sequences() -> Recipe:
    """Your own sequences of numbers or points, and the order in which to point at them.

    Run:      weft train pointer/sequences --data.path orders.tsv
    """
    return Recipe(
        data=PointingSequencesConfig(),
        model=PointerNetworkConfig(),
        objective=PointingConfig(),
        optim=adam(),
        train=Train(steps=3000, batch=64, eval_every=500),
        progress=EXACT,
    )


def adam() -> Adam:
    return Adam(lr=2e-3, clip_norm=1.0, schedule=Schedule(kind="cosine", warmup=100, min_lr_ratio=0.05))
