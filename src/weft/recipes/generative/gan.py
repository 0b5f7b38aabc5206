"""Generative adversarial networks of MLPs, and small conditional and semi-supervised ones."""

from __future__ import annotations

from weft.data.images.augment import Augment
from weft.data.images.digits import DigitsConfig
from weft.data.images.pixels import ImagesConfig
from weft.data.tables.toys import ToysConfig
from weft.models.generative.dcgan import DCGANConfig
from weft.models.generative.gan import GANConfig
from weft.objectives.generative.adversarial import AdversarialConfig
from weft.recipes.base import Progress, Recipe
from weft.training.optimizer.settings import Adam
from weft.training.schedule import Schedule
from weft.training.settings import Train

NEARER = Progress(metric="frechet_pixels", goal="min")
RING = ToysConfig(shape="ring", spread=0.1)


def adam(lr: float) -> Adam:
    """Adam with the short memory of DCGAN (Radford et al., 2015)."""
    return Adam(lr=lr, betas=(0.5, 0.999))


def digits() -> Recipe:
    """GAN of two MLPs on scikit-learn's digits.

    Run:      weft train gan/digits
    """
    return Recipe(
        data=DigitsConfig(),
        model=GANConfig(latent=16, dropout=0.3),
        objective=AdversarialConfig(),
        optim={"discriminator": adam(1e-3), "generator": adam(5e-4)},
        train=Train(steps=2500, batch=64, log_every=50, eval_every=250, ema=0.99),
        progress=NEARER,
    )


def mnist() -> Recipe:
    """GAN of two MLPs on MNIST, from a hundred numbers of noise; without norms in the generator the discriminator soon wins.

    Run:      weft train gan/mnist
    """
    return Recipe(
        data=ImagesConfig(path="mnist", flat=True),
        model=GANConfig(latent=100, generator=(256, 512, 1024), norm="batch", discriminator=(512, 256), dropout=0.3),
        objective=AdversarialConfig(label_smoothing=(0.1, 0.0)),
        optim={"discriminator": adam(2e-4), "generator": adam(2e-4)},
        train=Train(steps=40_000, batch=128, log_every=100, eval_every=4000, save_every=10_000, ema=0.999, precision="tf32"),
        progress=NEARER,
    )


def ring() -> Recipe:
    """GAN on a ring of eight Gaussians, most of which it never finds.

    Run:      weft train gan/ring
    """
    return Recipe(
        data=RING,
        model=GANConfig(latent=16, generator=(128, 128), discriminator=(128, 128), output="linear"),
        objective=AdversarialConfig(input="point"),
        optim={"discriminator": adam(1e-3), "generator": adam(1e-3)},
        train=Train(steps=3000, batch=256, log_every=50, eval_every=500),
        progress=Progress(metric="imbalance", goal="min"),
    )


def conditional_digits() -> Recipe:
    """GAN that draws the digit it is asked for, on scikit-learn's digits.

    Run:      weft train gan/conditional_digits
    """
    return Recipe(
        data=DigitsConfig(),
        model=GANConfig(latent=16, dropout=0.3, conditional=True),
        objective=AdversarialConfig(),
        optim={"discriminator": adam(1e-3), "generator": adam(5e-4)},
        train=Train(steps=2500, batch=64, log_every=50, eval_every=250, ema=0.99),
        progress=NEARER,
    )


def conditional_mnist() -> Recipe:
    """Convolutional GAN that draws the digit it is asked for, on MNIST.

    Run:      weft train gan/conditional_mnist
    """
    return Recipe(
        data=ImagesConfig(path="mnist"),
        model=DCGANConfig(width=128, conditional=True),
        objective=AdversarialConfig(),
        optim={"discriminator": adam(2e-4), "generator": adam(2e-4)},
        train=Train(steps=20_000, batch=128, log_every=100, eval_every=2000, save_every=5000, ema=0.999),
        progress=NEARER,
    )


def semi_supervised(latent: int, noise: tuple[float, float], generator: tuple[int, ...], discriminator: tuple[int, ...]) -> GANConfig:
    """The networks of Salimans et al. (2016): noise and weight normalisation in the discriminator, which tells classes."""
    parts = {"generator": generator, "discriminator": discriminator, "noise": noise}
    return GANConfig(latent=latent, norm="batch", weight_norm=True, classifier=True, **parts)  # type: ignore[arg-type]


def semi_digits() -> Recipe:
    """GAN whose discriminator learns classes from one label in twenty, on scikit-learn's digits.

    Run:      weft train gan/semi_digits
    """
    return Recipe(
        data=DigitsConfig(labelled=0.05, repeat_labelled=5),
        model=semi_supervised(32, (0.1, 0.3), (256, 256), (256, 256, 256)),
        objective=AdversarialConfig(adversarial_weight=0.0, feature_matching=1.0, classification_weight=1.0),
        optim={"discriminator": adam(1e-3), "generator": adam(1e-3)},
        train=Train(steps=2000, batch=128, log_every=50, eval_every=200, ema=0.99),
        progress=Progress(metric="accuracy", goal="max"),
    )


def semi_mnist() -> Recipe:
    """GAN whose discriminator learns classes from 100 labels, on MNIST (Salimans et al., 2016: 0.93 % error).

    Unlike the paper's, its images are moved, turned and scaled a little each time, which saves most of the paper's steps.

    Run:      weft train gan/semi_mnist
              weft evaluate RUN accuracy --data.validate_on test
    """
    change = Augment(crop=2, rotate=15.0, scale=(0.85, 1.15))
    rate = Adam(lr=3e-3, betas=(0.5, 0.999), schedule=Schedule(kind="linear"))
    return Recipe(
        data=ImagesConfig(path="mnist", flat=True, labelled=100 / 54_000, repeat_labelled=135, augment=change),
        model=semi_supervised(100, (0.3, 0.5), (500, 500), (1000, 500, 250, 250, 250)),
        objective=AdversarialConfig(adversarial_weight=0.0, feature_matching=1.0, classification_weight=1.0),
        optim={"discriminator": rate, "generator": rate},
        train=Train(steps=25_000, batch=200, log_every=200, eval_every=2500, save_every=5000, ema=0.999, precision="tf32"),
        progress=Progress(metric="accuracy", goal="max"),
    )
