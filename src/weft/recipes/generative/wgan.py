"""Wasserstein GANs, by clipping and by a gradient penalty."""

from __future__ import annotations

from weft.data.base import DataConfig
from weft.data.images.augment import Augment
from weft.data.images.digits import DigitsConfig
from weft.data.images.pixels import ImagesConfig
from weft.models.generative.dcgan import DCGANConfig
from weft.models.generative.gan import GANConfig
from weft.objectives.generative.adversarial import AdversarialConfig
from weft.recipes.base import Progress, Recipe
from weft.recipes.generative.gan import NEARER, RING
from weft.training.optimizer.settings import Adam, RMSProp
from weft.training.schedule import Schedule
from weft.training.settings import Train


def ring() -> Recipe:
    """WGAN with clipped weights on a ring of eight Gaussians.

    Run:      weft train wgan/ring
    """
    return Recipe(
        data=RING,
        model=GANConfig(latent=8, generator=(128, 128, 128), discriminator=(128, 128, 128), output="linear"),
        objective=AdversarialConfig(input="point", loss="wasserstein", discriminator_steps=5, weight_clip=0.1),
        optim=RMSProp(lr=1e-3),
        train=Train(steps=15_000, batch=256, log_every=100, eval_every=1000, save_every=5000),
        progress=Progress(metric="imbalance", goal="min"),
    )


def penalty_ring() -> Recipe:
    """WGAN with a gradient penalty on a ring of eight Gaussians: all eight are found.

    Run:      weft train wgan_gp/ring
    """
    rate = Adam(lr=5e-3, betas=(0.5, 0.9), schedule=Schedule(kind="linear"))
    return Recipe(
        data=RING,
        model=GANConfig(latent=2, generator=(128, 128), discriminator=(128, 128), output="linear"),
        objective=AdversarialConfig(input="point", loss="wasserstein", discriminator_steps=5, gradient_penalty=0.1),
        optim={"discriminator": rate, "generator": rate},
        train=Train(steps=12_000, batch=256, log_every=100, eval_every=1000, save_every=4000, ema=0.99),
        progress=Progress(metric="imbalance", goal="min"),
    )


def clipped_cifar10() -> Recipe:
    """WGAN with clipped weights on CIFAR-10, with the settings of Arjovsky et al. (2017).

    Run:      weft train wgan/cifar10
    """
    return Recipe(
        data=ImagesConfig(path="cifar10", augment=Augment(flip=0.5)),
        model=DCGANConfig(width=128),
        objective=AdversarialConfig(loss="wasserstein", discriminator_steps=5, weight_clip=0.01),
        optim=RMSProp(lr=5e-5),
        train=Train(steps=30_000, batch=64, log_every=100, eval_every=2500, save_every=5000, ema=0.999),
        progress=NEARER,
    )


def penalised(data: DataConfig, width: int, steps: int, lr: float = 1e-4) -> Recipe:
    """WGAN-GP with the settings of Gulrajani et al. (2017): lambda 10, five turns of the critic, no normalisation in it."""
    rate = Adam(lr=lr, betas=(0.0, 0.9), schedule=Schedule(kind="linear"))
    return Recipe(
        data=data,
        model=DCGANConfig(latent=128, width=width, discriminator_norm="none"),
        objective=AdversarialConfig(loss="wasserstein", discriminator_steps=5, gradient_penalty=10.0),
        optim={"discriminator": rate, "generator": rate},
        train=Train(steps=steps, batch=64, log_every=100, eval_every=2500, save_every=5000, ema=0.999, precision="tf32"),
        progress=NEARER,
    )


def digits() -> Recipe:
    """WGAN with a gradient penalty on scikit-learn's digits.

    Run:      weft train wgan_gp/digits
    """
    rate = Adam(lr=1e-3, betas=(0.5, 0.9))
    return Recipe(
        data=DigitsConfig(),
        model=GANConfig(latent=16),
        objective=AdversarialConfig(loss="wasserstein", discriminator_steps=3, gradient_penalty=10.0),
        optim={"discriminator": rate, "generator": rate},
        train=Train(steps=1500, batch=64, log_every=50, eval_every=150, ema=0.99),
        progress=NEARER,
    )


def fashion() -> Recipe:
    """WGAN with a gradient penalty on Fashion-MNIST, at twice the authors' rate, for fewer steps.

    Run:      weft train wgan_gp/fashion
    """
    return penalised(ImagesConfig(path="fashion_mnist"), 64, 12_000, lr=2e-4)


def cifar10() -> Recipe:
    """WGAN with a gradient penalty on CIFAR-10, at twice the authors' rate, for fewer steps.

    Run:      weft train wgan_gp/cifar10
    """
    return penalised(ImagesConfig(path="cifar10", augment=Augment(flip=0.5)), 128, 12_000, lr=2e-4)


def images() -> Recipe:
    """WGAN with a gradient penalty on your own images, scaled to 32 by 32 pixels.

    Run:      weft train wgan_gp/images --data.path FOLDER
    """
    return penalised(ImagesConfig(size=32, channels=3, augment=Augment(flip=0.5)), 64, 20_000)
