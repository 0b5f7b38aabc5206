"""Restricted Boltzmann machines on binary images."""

from __future__ import annotations

from weft.data.images.digits import DigitsConfig
from weft.data.images.pixels import ImagesConfig
from weft.models.energy.rbm import RBMConfig
from weft.objectives.energy.contrastive_divergence import ContrastiveDivergenceConfig
from weft.recipes.base import Progress, Recipe
from weft.training.optimizer.settings import SGD, Momentum
from weft.training.schedule import Schedule
from weft.training.settings import Train

LIKELIHOOD = Progress(metric="pseudo_log_likelihood", goal="max")
"""The loss compares energies and says nothing about progress."""


def digits() -> Recipe:
    """RBM by contrastive divergence on scikit-learn's digits.

    Run:      weft train rbm/digits
    """
    return Recipe(
        data=DigitsConfig(binarise="threshold"),
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
        data=DigitsConfig(binarise="threshold"),
        model=RBMConfig(hidden=128),
        objective=ContrastiveDivergenceConfig(sweeps=5, particles=128),
        optim=Momentum(lr=0.05, momentum=0.9, weight_decay=1e-4, schedule=Schedule(kind="linear")),
        train=Train(steps=4000, batch=64, eval_every=500),
        progress=LIKELIHOOD,
    )


def mnist() -> Recipe:
    """RBM with 500 hidden units by a persistent chain on dynamically binarised MNIST (WEFT_DATA/mnist).

    A large rate keeps the chain moving, and the average of the weights takes the noise out that it brings.

    Run:      weft train rbm/mnist
              weft evaluate RUN@last --data.validate_on test
    """
    return Recipe(
        data=ImagesConfig(path="mnist", flat=True, binarise="dynamic"),
        model=RBMConfig(hidden=500),
        objective=ContrastiveDivergenceConfig(sweeps=2, particles=500, ais_chains=200, ais_temperatures=20_000),
        optim=SGD(lr=0.1, weight_decay=1e-4, schedule=Schedule(kind="linear")),
        train=Train(steps=40_000, batch=200, log_every=500, eval_every=10_000, eval_examples=1000, save_every=10_000, ema=0.999),
        progress=LIKELIHOOD,
    )


def images() -> Recipe:
    """RBM on your own folder of images, made grey, 28 by 28 pixels, in black and white.

    Run:      weft train rbm/images --data.path my_images
    """
    return Recipe(
        data=ImagesConfig(size=28, channels=1, flat=True, binarise="dynamic"),
        model=RBMConfig(hidden=500),
        objective=ContrastiveDivergenceConfig(sweeps=5, particles=100),
        optim=SGD(lr=0.05, weight_decay=1e-4, schedule=Schedule(kind="linear")),
        train=Train(steps=10_000, batch=100, log_every=50, eval_every=1000, eval_examples=1000, save_every=2000),
        progress=LIKELIHOOD,
    )
