"""Generative adversarial networks."""

from __future__ import annotations

from weft.data.digits import DigitsConfig
from weft.models.gan import GANConfig
from weft.objectives.adversarial import AdversarialConfig
from weft.recipes.base import Progress, Recipe
from weft.training.optim import Adam
from weft.training.settings import Train


def digits() -> Recipe:
    """GAN of two perceptrons on scikit-learn's digits.

    Run:      weft train gan/digits
    """
    return Recipe(
        data=DigitsConfig(),
        model=GANConfig(latent=16, dropout=0.3),
        objective=AdversarialConfig(),
        optim={"discriminator": Adam(lr=1e-3, betas=(0.5, 0.999)), "generator": Adam(lr=5e-4, betas=(0.5, 0.999))},
        train=Train(steps=2500, batch=64, log_every=50, eval_every=250, ema=0.99),
        progress=Progress(metric="frechet_pixels", goal="min"),
    )
