"""Classifiers, and regression: multilayer perceptrons, and a small residual network for your own images."""

from __future__ import annotations

from weft.data.images.augment import Augment
from weft.data.images.digits import DigitsConfig
from weft.data.images.pixels import ImagesConfig
from weft.data.tables.table import TableConfig
from weft.models.mlp import MLPConfig
from weft.models.vision.convnet import ConvNetConfig
from weft.objectives.classification import ClassificationConfig
from weft.objectives.regression import RegressionConfig
from weft.recipes.base import Progress, Recipe
from weft.training.optimizer.settings import AdamW
from weft.training.schedule import Schedule
from weft.training.settings import Train

ACCURACY = Progress(metric="accuracy", goal="max")


def adamw(lr: float) -> AdamW:
    return AdamW(lr=lr, weight_decay=0.05, schedule=Schedule(kind="cosine", warmup=50))


def digits() -> Recipe:
    """MLP 64-256-10 on scikit-learn's digits.

    Run:      weft train classifier/digits
    """
    return Recipe(
        data=DigitsConfig(),
        model=MLPConfig(hidden=(256,), dropout=0.2),
        objective=ClassificationConfig(),
        optim=adamw(2e-3),
        train=Train(steps=1500, batch=64, log_every=50, eval_every=150),
        progress=ACCURACY,
    )


def mnist() -> Recipe:
    """MLP 784-512-10 with 407,050 parameters on MNIST's four IDX files, ten epochs.

    Run:      weft train classifier/mnist --data.path mnist
    """
    return Recipe(
        data=ImagesConfig(path="mnist", flat=True),
        model=MLPConfig(hidden=(512,), dropout=0.2),
        objective=ClassificationConfig(),
        optim=adamw(2e-3),
        train=Train(steps=4200, batch=128, log_every=50, eval_every=420, save_every=1000),
        progress=ACCURACY,
    )


def images() -> Recipe:
    """Residual network on your own images, one subfolder per class, scaled to 32 by 32 pixels, mirrored and shifted at random.

    Run:      weft train classifier/images --data.path folder/
              weft train classifier/images --data.path folder/ --data.size 64 --model.channels 32 64 128 256
    """
    return Recipe(
        data=ImagesConfig(size=32, augment=Augment(flip=0.5, crop=4)),
        model=ConvNetConfig(channels=(32, 64, 128), normed=True, dropout=0.2),
        objective=ClassificationConfig(),
        optim=AdamW(lr=2e-3, weight_decay=0.05, clip_norm=1.0, schedule=Schedule(kind="cosine", warmup=100)),
        train=Train(steps=2000, batch=64, log_every=50, eval_every=200),
        progress=ACCURACY,
    )


def table() -> Recipe:
    """MLP on your own labelled rows: text, numbers or both.

    Run:      weft train classifier/table --data.path rows.tsv
    """
    return Recipe(
        data=TableConfig(),
        model=MLPConfig(hidden=(128,), dropout=0.2),
        objective=ClassificationConfig(inputs=("x",)),
        optim=adamw(1e-3),
        train=Train(steps=1500, batch=64, log_every=50, eval_every=150),
        progress=ACCURACY,
    )


def number() -> Recipe:
    """MLP that tells a number of your own rows of text, numbers or both; the number is the column called label, else the last.

    Run:      weft train regression/table --data.path rows.csv --data.label price
    """
    return Recipe(
        data=TableConfig(number=True),
        model=MLPConfig(hidden=(128,), dropout=0.1),
        objective=RegressionConfig(inputs=("x",)),
        optim=adamw(1e-3),
        train=Train(steps=1500, batch=64, log_every=50, eval_every=150),
        progress=Progress(metric="rmse"),
    )
