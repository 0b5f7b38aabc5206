"""Boltzmann machines."""

from __future__ import annotations

from weft.data.images.digits import DigitsConfig
from weft.models.energy.boltzmann import BoltzmannConfig
from weft.objectives.energy.boltzmann_learning import BoltzmannLearningConfig
from weft.recipes.base import Progress, Recipe
from weft.training.optimizer.settings import SGD
from weft.training.schedule import Schedule
from weft.training.settings import Train

HIDDEN = 32


def digits() -> Recipe:
    """Boltzmann machine with 32 hidden units on scikit-learn's digits; validation fills in the lower half of each.

    Run:      weft train boltzmann/digits
    """
    return Recipe(
        data=DigitsConfig(binarise="threshold"),
        model=BoltzmannConfig(hidden=HIDDEN),
        objective=BoltzmannLearningConfig(clamped_sweeps=3, sweeps=1, particles=100, hidden=HIDDEN),
        optim=SGD(lr=0.1, schedule=Schedule(kind="linear")),
        train=Train(steps=1500, batch=100, eval_every=300, compile="off"),
        progress=Progress(metric="completion_error"),
    )
