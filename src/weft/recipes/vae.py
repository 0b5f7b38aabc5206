"""Variational autoencoders."""

from __future__ import annotations

from weft.data.digits import DigitsConfig
from weft.models.vae import VAEConfig
from weft.objectives.elbo import ELBOConfig
from weft.recipes.base import Recipe
from weft.training.optim import AdamW
from weft.training.schedule import Schedule
from weft.training.settings import Train


def adamw(lr: float) -> AdamW:
    return AdamW(lr=lr, weight_decay=0.1, schedule=Schedule(kind="cosine", warmup=50))


def digits() -> Recipe:
    """VAE with a Bernoulli decoder on scikit-learn's digits in black and white.

    Run:      weft train vae/digits
    """
    return Recipe(
        data=DigitsConfig(binary=True),
        model=VAEConfig(latent=16, hidden=(256,)),
        objective=ELBOConfig(),
        optim=adamw(1e-3),
        train=Train(steps=3000, batch=64, log_every=50, eval_every=300),
    )


def semi_supervised() -> Recipe:
    """VAE with a Gaussian decoder on scikit-learn's digits, one in twenty labelled; a linear classifier reads the code.

    Run:      weft train vae/semi_supervised
    """
    return Recipe(
        data=DigitsConfig(labelled=0.05),
        model=VAEConfig(latent=32, hidden=(512,), decoder="gaussian", classifier=True),
        objective=ELBOConfig(label=30.0),
        optim=adamw(1e-3),
        train=Train(steps=1500, batch=64, log_every=50, eval_every=150),
    )
