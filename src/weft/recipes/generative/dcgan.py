"""Deep convolutional GANs, with the settings of Radford et al. (2015): Adam at 2e-4 with beta1 0.5, batches of 128."""

from __future__ import annotations

from weft.data.base import DataConfig
from weft.data.images.augment import Augment
from weft.data.images.digits import DigitsConfig
from weft.data.images.pixels import ImagesConfig
from weft.models.generative.dcgan import DCGANConfig
from weft.objectives.generative.adversarial import AdversarialConfig
from weft.recipes.base import Recipe
from weft.recipes.generative.gan import NEARER, adam
from weft.training.settings import Train


def convolutional(data: DataConfig, model: DCGANConfig, steps: int) -> Recipe:
    """What the recipes on real images have in common."""
    return Recipe(
        data=data,
        model=model,
        objective=AdversarialConfig(),
        optim={"discriminator": adam(2e-4), "generator": adam(2e-4)},
        train=Train(steps=steps, batch=128, log_every=100, eval_every=2500, save_every=5000, ema=0.999),
        progress=NEARER,
    )


def digits() -> Recipe:
    """DCGAN on scikit-learn's digits.

    Run:      weft train dcgan/digits
    """
    return Recipe(
        data=DigitsConfig(flat=False),
        model=DCGANConfig(latent=32, width=64),
        objective=AdversarialConfig(label_smoothing=(0.1, 0.0)),
        optim={"discriminator": adam(5e-4), "generator": adam(5e-4)},
        train=Train(steps=2500, batch=64, log_every=50, eval_every=250, ema=0.99),
        progress=NEARER,
    )


def mnist() -> Recipe:
    """DCGAN on MNIST.

    Run:      weft train dcgan/mnist
    """
    return convolutional(ImagesConfig(path="mnist"), DCGANConfig(width=128), 20_000)


def fashion() -> Recipe:
    """DCGAN on Fashion-MNIST.

    Run:      weft train dcgan/fashion
    """
    return convolutional(ImagesConfig(path="fashion_mnist"), DCGANConfig(width=128), 20_000)


def cifar10() -> Recipe:
    """DCGAN on CIFAR-10.

    Run:      weft train dcgan/cifar10
    """
    return convolutional(ImagesConfig(path="cifar10", augment=Augment(flip=0.5)), DCGANConfig(width=128), 20_000)


def images() -> Recipe:
    """DCGAN on your own image folder.

    Run:      weft train dcgan/images --data.path FOLDER
    """
    return convolutional(ImagesConfig(size=32, channels=3, augment=Augment(flip=0.5)), DCGANConfig(), 10_000)
