"""Small convolutional classifiers, by whose features sets of images are compared: FID-mnist_extractor and the like."""

from __future__ import annotations

from weft.data.base import DataConfig
from weft.data.images.augment import Augment
from weft.data.images.digits import DigitsConfig
from weft.data.images.pixels import ImagesConfig
from weft.models.vision.convnet import ConvNetConfig
from weft.objectives.classification import ClassificationConfig
from weft.recipes.base import Progress, Recipe
from weft.training.optimizer.settings import AdamW
from weft.training.schedule import Schedule
from weft.training.settings import Train


def extractor(data: DataConfig, model: ConvNetConfig, train: Train) -> Recipe:
    return Recipe(
        data=data,
        model=model,
        objective=ClassificationConfig(),
        optim=AdamW(lr=2e-3, weight_decay=0.05, clip_norm=1.0, schedule=Schedule(kind="cosine", warmup=100)),
        train=train,
        progress=Progress(metric="accuracy", goal="max"),
    )


def digits() -> Recipe:
    """Residual network with 64 features on scikit-learn's digits.

    Run:      weft train classifier/digits_extractor
    """
    model = ConvNetConfig(channels=(16, 32, 64), dropout=0.2)
    return extractor(DigitsConfig(flat=False), model, Train(steps=600, batch=64, log_every=50, eval_every=100))


def mnist() -> Recipe:
    """Residual network with 128 features on MNIST's four IDX files.

    Run:      weft train classifier/mnist_extractor
    """
    data = ImagesConfig(path="mnist", validation=0.05, augment=Augment(crop=2))
    return extractor(data, ConvNetConfig(dropout=0.3), Train(steps=5000, batch=256, log_every=100, eval_every=500, ema=0.999))


def fashion() -> Recipe:
    """Residual network with 128 features on Fashion-MNIST's four IDX files.

    Run:      weft train classifier/fashion_extractor --data.path fashion_mnist
    """
    data = ImagesConfig(path="fashion_mnist", validation=0.05, augment=Augment(flip=0.5, crop=2))
    return extractor(data, ConvNetConfig(dropout=0.3), Train(steps=8000, batch=256, log_every=100, eval_every=500, ema=0.999))


def cifar10() -> Recipe:
    """Residual network with 256 features on CIFAR-10.

    Run:      weft train classifier/cifar10_extractor
    """
    data = ImagesConfig(path="cifar10", validation=0.05, augment=Augment(flip=0.5, crop=4))
    model = ConvNetConfig(channels=(64, 128, 256, 256), blocks=2, normed=True, dropout=0.3)
    return extractor(data, model, Train(steps=6000, batch=256, log_every=100, eval_every=1000, ema=0.999))
