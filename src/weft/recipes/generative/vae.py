"""Variational autoencoders."""

from __future__ import annotations

from weft.data.images.digits import DigitsConfig
from weft.data.images.pixels import ImagesConfig
from weft.models.generative.vae import VAEConfig
from weft.objectives.generative.elbo import ELBOConfig
from weft.recipes.base import Progress, Recipe
from weft.training.optimizer.settings import Adam, AdamW
from weft.training.schedule import Schedule
from weft.training.settings import Train

HIDDEN = Progress(metric="hidden_error", goal="min")


def adamw(lr: float) -> AdamW:
    return AdamW(lr=lr, weight_decay=0.1, schedule=Schedule(kind="cosine", warmup=50))


def long(lr: float) -> Adam:
    """For convolutions and many steps."""
    return Adam(lr=lr, clip_norm=50.0, schedule=Schedule(kind="cosine", warmup=1000, min_lr_ratio=0.01))


def digits() -> Recipe:
    """VAE with a Bernoulli decoder on scikit-learn's digits in black and white.

    Run:      weft train vae/digits
    """
    return Recipe(
        data=DigitsConfig(binarise="threshold"),
        model=VAEConfig(latent=16, hidden=(256,)),
        objective=ELBOConfig(),
        optim=adamw(1e-3),
        train=Train(steps=3000, batch=64, log_every=50, eval_every=300),
    )


def beta() -> Recipe:
    """β-VAE (Higgins et al., 2017) on scikit-learn's digits: with a heavier KL the code keeps less, in fewer dimensions.

    Images of 64 pixels hold so little that 3 would leave nothing in the code; larger ones bear 4 and more.

    Run:      weft train vae/beta
              weft sample RUN --latents traverse
    """
    return Recipe(
        data=DigitsConfig(binarise="threshold"),
        model=VAEConfig(latent=16, hidden=(256,)),
        objective=ELBOConfig(beta=1.5),
        optim=adamw(1e-3),
        train=Train(steps=2000, batch=64, log_every=50, eval_every=200),
    )


def inpainting() -> Recipe:
    """VAE on scikit-learn's digits that sees them with a square of half their side hidden, and learns to fill it in.

    Run:      weft train vae/inpainting
    """
    return Recipe(
        data=DigitsConfig(flat=False),
        model=VAEConfig(latent=16, hidden=(256, 128), decoder="gaussian"),
        objective=ELBOConfig(mask_size=0.5),
        optim=adamw(1e-3),
        train=Train(steps=3000, batch=64, log_every=50, eval_every=300),
        progress=HIDDEN,
    )


def mnist_mlp() -> Recipe:
    """VAE of MLPs with two hidden layers on dynamically binarised MNIST.

    Run:      weft train vae/mnist_mlp
              weft evaluate RUN loss iwae=1000 --data.validate_on test
    """
    return Recipe(
        data=ImagesConfig(path="mnist", binarise="dynamic", flat=True, validation=0.1),
        model=VAEConfig(latent=32, hidden=(512, 512)),
        objective=ELBOConfig(),
        optim=long(1e-3),
        train=Train(steps=60_000, batch=256, log_every=200, eval_every=3000, save_every=10_000, ema=0.9995),
    )


def mnist() -> Recipe:
    """VAE with residual convolutions and a code of 32 numbers on dynamically binarised MNIST.

    Run:      weft train vae/mnist
              weft evaluate RUN loss iwae=1000 --data.validate_on test
    """
    return Recipe(
        data=ImagesConfig(path="mnist", binarise="dynamic", validation=0.05),
        model=VAEConfig(latent=32, hidden=(256,), channels=(32, 64, 64), blocks=2),
        objective=ELBOConfig(),
        optim=long(1e-3),
        train=Train(steps=15_000, batch=256, log_every=200, eval_every=2500, save_every=5000, ema=0.999),
    )


def fashion() -> Recipe:
    """VAE with residual convolutions and a Gaussian decoder on Fashion-MNIST's four IDX files.

    Run:      weft train vae/fashion --data.path fashion_mnist
    """
    return Recipe(
        data=ImagesConfig(path="fashion_mnist", validation=0.05),
        model=VAEConfig(latent=64, hidden=(256,), channels=(32, 64, 64), blocks=2, decoder="gaussian"),
        objective=ELBOConfig(),
        optim=long(1e-3),
        train=Train(steps=30_000, batch=256, log_every=200, eval_every=2500, save_every=10_000, ema=0.9995),
    )


def cifar10() -> Recipe:
    """VAE with residual convolutions and a Gaussian decoder on CIFAR-10.

    Run:      weft train vae/cifar10
              weft evaluate RUN fid=EXTRACTOR --data.validate_on test
    """
    return Recipe(
        data=ImagesConfig(path="cifar10", validation=0.05),
        model=VAEConfig(latent=128, hidden=(512,), channels=(64, 128, 128, 128), blocks=2, decoder="gaussian"),
        objective=ELBOConfig(),
        optim=long(1e-3),
        train=Train(steps=30_000, batch=128, log_every=200, eval_every=2500, save_every=10_000, ema=0.9995),
    )


def images() -> Recipe:
    """VAE with residual convolutions and a Gaussian decoder on your own images, scaled to 32 by 32 pixels.

    Run:      weft train vae/images --data.path folder/
    """
    return Recipe(
        data=ImagesConfig(size=32),
        model=VAEConfig(latent=64, hidden=(256,), channels=(32, 64, 64, 64), decoder="gaussian"),
        objective=ELBOConfig(),
        optim=Adam(lr=1e-3, clip_norm=50.0, schedule=Schedule(kind="cosine", warmup=200, min_lr_ratio=0.01)),
        train=Train(steps=5000, batch=64, log_every=50, eval_every=500, ema=0.999),
    )


def semi_supervised() -> Recipe:
    """VAE with a Gaussian decoder on scikit-learn's digits, one in twenty labelled; a linear classifier reads the code.

    Run:      weft train vae/semi_supervised
    """
    return Recipe(
        data=DigitsConfig(labelled=0.05),
        model=VAEConfig(latent=32, hidden=(512,), decoder="gaussian", classifier=True),
        objective=ELBOConfig(classification_weight=30.0),
        optim=adamw(1e-3),
        train=Train(steps=1500, batch=64, log_every=50, eval_every=150),
    )
