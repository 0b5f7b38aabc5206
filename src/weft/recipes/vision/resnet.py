"""Residual networks, with pre-activation, dense and highway networks, that name the class of an image."""

from __future__ import annotations

from weft.data.images.augment import Augment
from weft.data.images.digits import DigitsConfig
from weft.data.images.pixels import ImagesConfig
from weft.models.base import ModelConfig
from weft.models.vision import densenet as densenets
from weft.models.vision import resnet as resnets
from weft.models.vision.densenet import DenseNetConfig
from weft.models.vision.highway import HighwayConfig
from weft.models.vision.preact_resnet import PreActResNetConfig
from weft.models.vision.resnet import ResNetConfig
from weft.objectives.classification import ClassificationConfig
from weft.recipes.base import Progress, Recipe
from weft.training.optimizer.settings import Momentum
from weft.training.schedule import Schedule
from weft.training.settings import Train

ACCURACY = Progress(metric="accuracy", goal="max")


def momentum(lr: float, weight_decay: float, warmup: int = 0) -> Momentum:
    """SGD with momentum and a cosine."""
    return Momentum(lr=lr, weight_decay=weight_decay, schedule=Schedule(kind="cosine", warmup=warmup))


def small(model: ModelConfig) -> Recipe:
    """A network on scikit-learn's digits."""
    return Recipe(
        data=DigitsConfig(flat=False),
        model=model,
        objective=ClassificationConfig(),
        optim=momentum(0.1, 5e-4, warmup=50),
        train=Train(steps=600, batch=64, log_every=50, eval_every=100),
        progress=ACCURACY,
    )


def digits() -> Recipe:
    """ResNet-8 on scikit-learn's digits.

    Run:      weft train resnet/digits
    """
    return small(ResNetConfig(blocks=(1, 1, 1), channels=(16, 32, 64), stem="cifar"))


def preact_digits() -> Recipe:
    """ResNet with pre-activation on scikit-learn's digits.

    Run:      weft train preact_resnet/digits
    """
    return small(PreActResNetConfig(blocks=(1, 1, 1), channels=(16, 32, 64)))


def densenet_digits() -> Recipe:
    """DenseNet-BC of 16 layers on scikit-learn's digits.

    Run:      weft train densenet/digits
    """
    return small(densenets.cifar(16, 12))


def highway_digits() -> Recipe:
    """Highway network of ten layers on scikit-learn's digits.

    Run:      weft train highway/digits
    """
    return small(HighwayConfig(layers=9, channels=16, pool_every=4))


def own_images(model: ModelConfig) -> Recipe:
    """A network on your own images, at 224 by 224 pixels as in the papers."""
    return Recipe(
        data=ImagesConfig(size=256, crop_size=224, channels=3, augment=Augment(flip=0.5)),
        model=model,
        objective=ClassificationConfig(label_smoothing=0.1),
        optim=momentum(0.05, 1e-4, warmup=100),
        train=Train(steps=3000, batch=64, log_every=50, eval_every=300),
        progress=ACCURACY,
    )


def images() -> Recipe:
    """ResNet-18 on your own photographs, one subfolder per class; or from weights of others, with --init.

    Run:      weft train resnet/images --data.path folder/
              weft convert resnet50.pth runs/resnet50 && weft train resnet/images --data.path folder/ --init runs/resnet50
    """
    return own_images(ResNetConfig(blocks=(2, 2, 2, 2)))


def densenet_images() -> Recipe:
    """DenseNet-121 on your own photographs, one subfolder per class; or from weights of others, with --init.

    Run:      weft train densenet/images --data.path folder/
    """
    return own_images(DenseNetConfig())


CIFAR10 = ImagesConfig(
    path="cifar10", validation=0.1, mean=(0.4914, 0.4822, 0.4465), std=(0.247, 0.2435, 0.2616), augment=Augment(flip=0.5, crop=4)
)


def on_cifar10(model: ModelConfig) -> Recipe:
    """As in the paper: 64,000 steps of 128 images, the rate divided by ten after 32,000 and 48,000; a tenth of the images validates."""
    return Recipe(
        data=CIFAR10,
        model=model,
        objective=ClassificationConfig(),
        optim=Momentum(lr=0.1, weight_decay=1e-4, schedule=Schedule(kind="step", milestones=(32_000, 48_000))),
        train=Train(steps=64_000, batch=128, log_every=100, eval_every=2000, save_every=5000),
        progress=ACCURACY,
    )


def cifar10() -> Recipe:
    """ResNet-20 on CIFAR-10 as in the paper; --model.blocks 9 9 9 is ResNet-56, --model.shortcut none its plain counterpart.

    Run:      weft train resnet/cifar10 --data.path cifar10
              weft evaluate RUN --data.validate_on test
    """
    return on_cifar10(resnets.cifar(20))


def preact_cifar10() -> Recipe:
    """ResNet-18 with pre-activation on CIFAR-10.

    Run:      weft train preact_resnet/cifar10 --data.path cifar10
    """
    return on_cifar10(PreActResNetConfig())


def densenet_cifar10() -> Recipe:
    """DenseNet-BC of 100 layers, growth rate 12, on CIFAR-10.

    Run:      weft train densenet/cifar10 --data.path cifar10
    """
    return on_cifar10(densenets.cifar(100, 12))
