"""Swin Transformers that name the class of an image."""

from __future__ import annotations

from weft.data.images.augment import Augment
from weft.data.images.digits import DigitsConfig
from weft.data.images.pixels import ImagesConfig
from weft.models.vision.swin import SwinConfig
from weft.objectives.classification import ClassificationConfig
from weft.recipes.base import Recipe
from weft.recipes.vision.vit import ACCURACY, CIFAR10, adamw
from weft.training.settings import Train


def digits() -> Recipe:
    """Swin of two stages on scikit-learn's digits, windows of 2 by 2 patches of 2 by 2 pixels.

    Run:      weft train swin/digits
    Expect:   validation accuracy 0.980 to 0.986 after 800 steps; about half a minute of one CPU core.
    """
    return Recipe(
        data=DigitsConfig(flat=False),
        model=SwinConfig(patch=2, window=2, layers=(2, 2), heads=(2, 4), width=48, dropout=0.1, init_std=0.1),
        objective=ClassificationConfig(),
        optim=adamw(2e-3, warmup=100),
        train=Train(steps=800, batch=64, log_every=50, eval_every=100),
        progress=ACCURACY,
    )


def images() -> Recipe:
    """Swin on your own images, one subfolder per class, scaled to 64 by 64 pixels.

    Run:      weft train swin/images --data.path folder/
    """
    return Recipe(
        data=ImagesConfig(size=64, augment=Augment(flip=0.5, crop=6)),
        model=SwinConfig(window=4, layers=(2, 2, 4), heads=(2, 4, 8), width=64, init_std=0.05),
        objective=ClassificationConfig(),
        optim=adamw(1e-3, warmup=200),
        train=Train(steps=4000, batch=64, log_every=50, eval_every=400),
        progress=ACCURACY,
    )


def cifar10() -> Recipe:
    """Swin of 6.8 M parameters on CIFAR-10, patches of 2 by 2 pixels; half of the images mixed in twos, 7.7 M of them in all.

    Run:      weft train swin/cifar10
              weft evaluate RUN --data.validate_on test
    """
    return Recipe(
        data=CIFAR10,
        model=SwinConfig(patch=2, window=4, layers=(2, 6, 2), heads=(3, 6, 12), width=96, drop_path=0.1),
        objective=ClassificationConfig(label_smoothing=0.1),
        optim=adamw(1e-3, warmup=1000),
        train=Train(steps=30_000, batch=256, log_every=100, eval_every=3000, save_every=5000, ema=0.999),
        progress=ACCURACY,
    )
