"""Bidirectional GANs, with the settings of Donahue et al. (2016)."""

from __future__ import annotations

from weft.data.images.digits import DigitsConfig
from weft.data.images.pixels import ImagesConfig
from weft.models.generative.bigan import BiGANConfig
from weft.objectives.language.bidirectional import BidirectionalConfig
from weft.recipes.base import Progress, Recipe
from weft.recipes.generative.gan import adam
from weft.training.optimizer.settings import Adam
from weft.training.schedule import Schedule
from weft.training.settings import Train

CLOSER = Progress(metric="reconstruction", goal="min")


def digits() -> Recipe:
    """BiGAN on scikit-learn's digits: reconstructions through a code that no loss asks for.

    Run:      weft train bigan/digits
    """
    return Recipe(
        data=DigitsConfig(),
        model=BiGANConfig(latent=16, hidden=(256, 256)),
        objective=BidirectionalConfig(),
        optim={"discriminator": adam(2e-4), "generator": adam(2e-4)},
        train=Train(steps=1500, batch=128, log_every=50, eval_every=250, ema=0.99),
        progress=CLOSER,
    )


def mnist() -> Recipe:
    """BiGAN on MNIST; the nearest neighbour by the encoder's last hidden layer tells the digit (Donahue et al., 2016: 97.4 %).

    Run:      weft train bigan/mnist
    """
    rate = Adam(lr=2e-4, betas=(0.5, 0.999), weight_decay=2.5e-5, schedule=Schedule(kind="linear", hold=0.5, min_lr_ratio=0.01))
    return Recipe(
        data=ImagesConfig(path="mnist", flat=True),
        model=BiGANConfig(latent=50),
        objective=BidirectionalConfig(),
        optim={"discriminator": rate, "generator": rate},
        train=Train(steps=150_000, batch=128, log_every=500, eval_every=10_000, save_every=25_000, precision="tf32"),
        progress=CLOSER,
    )
