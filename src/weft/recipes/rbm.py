"""Restricted Boltzmann machines on binary digits."""

from __future__ import annotations

from weft.data.digits import DigitsConfig
from weft.models.rbm import RBMConfig
from weft.objectives.contrastive_divergence import ContrastiveDivergenceConfig
from weft.recipes.base import Progress, Recipe
from weft.training.optim import Momentum
from weft.training.schedule import Schedule
from weft.training.settings import Train

LIKELIHOOD = Progress(metric="pseudo_log_likelihood", goal="max")
"""The loss compares energies and says nothing about progress."""


def digits() -> Recipe:
    """RBM by contrastive divergence on scikit-learn's digits.

    Run:      weft train rbm/digits
    """
    return Recipe(
        data=DigitsConfig(binary=True),
        model=RBMConfig(hidden=128),
        objective=ContrastiveDivergenceConfig(sweeps=1),
        optim=Momentum(lr=0.05, momentum=0.9, weight_decay=1e-4, schedule=Schedule(kind="linear")),
        train=Train(steps=2000, batch=64, eval_every=250),
        progress=LIKELIHOOD,
    )


def persistent() -> Recipe:
    """RBM by a persistent chain on scikit-learn's digits.

    Run:      weft train rbm/persistent
    """
    return Recipe(
        data=DigitsConfig(binary=True),
        model=RBMConfig(hidden=128),
        objective=ContrastiveDivergenceConfig(sweeps=5, particles=128),
        optim=Momentum(lr=0.05, momentum=0.9, weight_decay=1e-4, schedule=Schedule(kind="linear")),
        train=Train(steps=4000, batch=64, eval_every=500),
        progress=LIKELIHOOD,
    )
