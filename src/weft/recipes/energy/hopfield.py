"""Hopfield networks."""

from __future__ import annotations

from weft.data.images.associative_memory import PatternsConfig
from weft.models.energy.hopfield import HopfieldConfig
from weft.objectives.energy.associative_memory import AssociativeMemoryConfig
from weft.recipes.base import Progress, Recipe
from weft.training.optimizer.settings import SGD, Adam
from weft.training.settings import Train

RECALL = Progress(metric="recalled", goal="max")
"""An energy can be made as low as one likes; what counts is what is recalled."""


def patterns() -> Recipe:
    """Hopfield network that stores 20 random patterns of 400 units by Hebb's rule, which is one step over all of them.

    Run:      weft train hopfield/patterns
    """
    return Recipe(
        data=PatternsConfig(patterns=20, units=400),
        model=HopfieldConfig(),
        objective=AssociativeMemoryConfig(rule="hebb", flipped=0.2),
        optim=SGD(lr=1.0),
        train=Train(steps=1, batch=20, log_every=1, eval_every=1),
        progress=RECALL,
    )


def digits() -> Recipe:
    """Hopfield network that stores ten handwritten digits; they resemble each other too much for Hebb's rule.

    Run:      weft train hopfield/digits
    """
    return Recipe(
        data=PatternsConfig(kind="digits", patterns=10, copies=20),
        model=HopfieldConfig(),
        objective=AssociativeMemoryConfig(rule="pseudo_likelihood", flipped=0.2),
        optim=Adam(lr=0.02, l2=1e-3),
        train=Train(steps=300, batch=10, eval_every=100),
        progress=RECALL,
    )
