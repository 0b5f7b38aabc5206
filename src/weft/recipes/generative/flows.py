"""Normalising flows: RealNVP, masked and inverse autoregressive flows, a distilled one, planar flows."""

from __future__ import annotations

from weft.data.images.augment import Augment
from weft.data.images.digits import DigitsConfig
from weft.data.images.pixels import ImagesConfig
from weft.data.tables.noise_only import NoiseOnlyConfig
from weft.data.tables.toys import ToysConfig
from weft.models.generative.distilled import DistilledConfig
from weft.models.generative.iaf import IAFConfig
from weft.models.generative.maf import MAFConfig
from weft.models.generative.planar import PlanarFlowConfig
from weft.models.generative.realnvp import RealNVPConfig
from weft.models.generative.realnvp_images import RealNVPImagesConfig
from weft.objectives.generative.density_distillation import DensityDistillationConfig
from weft.objectives.generative.likelihood import LikelihoodConfig
from weft.objectives.generative.reverse_kl import ReverseKLConfig
from weft.recipes.base import Recipe
from weft.training.optimizer.settings import Adam, AdamW
from weft.training.schedule import Schedule
from weft.training.settings import Train

POINTS = LikelihoodConfig(input="point")
BYTES = LikelihoodConfig(levels=256)


def adam(lr: float, warmup: int = 50) -> Adam:
    return Adam(lr=lr, clip_norm=10.0, schedule=Schedule(kind="cosine", warmup=warmup))


def adamw(lr: float, weight_decay: float, clip_norm: float, warmup: int = 500) -> AdamW:
    return AdamW(lr=lr, weight_decay=weight_decay, clip_norm=clip_norm, schedule=Schedule(kind="cosine", warmup=warmup))


def realnvp_moons() -> Recipe:
    """RealNVP on two moons.

    Run:      weft train realnvp/moons
    """
    return Recipe(
        data=ToysConfig(shape="moons"),
        model=RealNVPConfig(layers=8, hidden=(64, 64)),
        objective=POINTS,
        optim=adam(3e-3),
        train=Train(steps=1500, batch=256, log_every=50, eval_every=150, ema=0.99, precision="fp32"),
    )


def realnvp_digits() -> Recipe:
    """RealNVP of two scales on scikit-learn's digits, 17 levels of grey.

    Run:      weft train realnvp/digits
    """
    return Recipe(
        data=DigitsConfig(flat=False),
        model=RealNVPImagesConfig(scales=2, blocks=1, width=24, dropout=0.2),
        objective=LikelihoodConfig(levels=17),
        optim=adamw(3e-3, 0.01, clip_norm=50.0, warmup=100),
        train=Train(steps=700, batch=64, log_every=50, eval_every=100, ema=0.99, precision="fp32"),
    )


def realnvp_mnist() -> Recipe:
    """RealNVP of three scales on MNIST.

    Run:      weft train realnvp/mnist
              weft evaluate RUN --data.validate_on test
    """
    return Recipe(
        data=ImagesConfig(path="mnist", validation=0.05),
        model=RealNVPImagesConfig(scales=3, blocks=2, width=32),
        objective=BYTES,
        optim=adamw(1e-3, 0.01, clip_norm=100.0),
        train=Train(steps=8000, batch=128, log_every=100, eval_every=2000, save_every=4000, ema=0.999),
    )


def realnvp_cifar10() -> Recipe:
    """RealNVP of three scales on CIFAR-10, mirrored images included.

    Run:      weft train realnvp/cifar10
              weft evaluate RUN --data.validate_on test
    """
    return Recipe(
        data=ImagesConfig(path="cifar10", validation=0.03, augment=Augment(flip=0.5)),
        model=RealNVPImagesConfig(scales=3, blocks=2, width=64, dropout=0.1),
        objective=BYTES,
        optim=adamw(1e-3, 0.01, clip_norm=100.0),
        train=Train(steps=6000, batch=64, log_every=100, eval_every=1000, save_every=2000, ema=0.999),
    )


def realnvp_images() -> Recipe:
    """RealNVP on your own images, scaled to 32 by 32 pixels.

    Run:      weft train realnvp/images --data.path folder/
    """
    return Recipe(
        data=ImagesConfig(size=32, augment=Augment(flip=0.5)),
        model=RealNVPImagesConfig(scales=3, blocks=2, width=32, dropout=0.1),
        objective=BYTES,
        optim=adamw(1e-3, 0.01, clip_norm=100.0, warmup=200),
        train=Train(steps=10_000, batch=64, log_every=100, eval_every=1000, ema=0.999),
    )


def maf_moons() -> Recipe:
    """Masked autoregressive flow on two moons.

    Run:      weft train maf/moons
    """
    return Recipe(
        data=ToysConfig(shape="moons"),
        model=MAFConfig(layers=6, hidden=(64, 64)),
        objective=POINTS,
        optim=adam(3e-3),
        train=Train(steps=2000, batch=256, log_every=50, eval_every=200, ema=0.99, precision="fp32"),
    )


def maf_digits() -> Recipe:
    """Masked autoregressive flow on scikit-learn's digits, 17 levels of grey.

    Run:      weft train maf/digits
    """
    return Recipe(
        data=DigitsConfig(),
        model=MAFConfig(layers=4, hidden=(128,), margin=0.05),
        objective=LikelihoodConfig(levels=17),
        optim=adamw(2e-3, 0.05, clip_norm=50.0, warmup=100),
        train=Train(steps=1000, batch=64, log_every=50, eval_every=100, ema=0.99, precision="fp32"),
    )


def maf_mnist() -> Recipe:
    """Masked autoregressive flow on MNIST: 5 layers of 1024 units, as the paper's.

    Run:      weft train maf/mnist
              weft evaluate RUN --data.validate_on test
    """
    return Recipe(
        data=ImagesConfig(path="mnist", flat=True, validation=0.1),
        model=MAFConfig(layers=5, hidden=(1024,), margin=1e-6),
        objective=BYTES,
        optim=adamw(1e-3, 0.1, clip_norm=500.0, warmup=1000),
        train=Train(steps=40_000, batch=128, log_every=100, eval_every=1000, save_every=10_000, ema=0.999, patience=12, precision="tf32"),
    )


def iaf_lobes() -> Recipe:
    """Inverse autoregressive flow fitted to a density in the plane, without data.

    Run:      weft train iaf/lobes
    """
    return Recipe(
        data=NoiseOnlyConfig(),
        model=IAFConfig(layers=6, hidden=(64, 64)),
        objective=ReverseKLConfig(target="lobes"),
        optim=adam(2e-3),
        train=Train(steps=1500, batch=256, log_every=50, eval_every=150, ema=0.99),
    )


def iaf_distilled() -> Recipe:
    """Inverse autoregressive flow that learns two moons from a masked one, and never sees them.

    Run:      weft train iaf/distilled
    """
    return Recipe(
        data=ToysConfig(shape="moons"),
        model=DistilledConfig(teacher=MAFConfig(layers=4, hidden=(64, 64)), student=IAFConfig(layers=6, hidden=(64, 64))),
        objective=DensityDistillationConfig(),
        optim={"teacher": adam(3e-3), "student": adam(2e-3)},
        train=Train(steps=2000, batch=256, log_every=50, eval_every=200, ema=0.99),
    )


def planar_lobes() -> Recipe:
    """Planar flow of 16 layers fitted to a density in the plane, without data.

    Run:      weft train planar/lobes
    """
    return Recipe(
        data=NoiseOnlyConfig(),
        model=PlanarFlowConfig(layers=16),
        objective=ReverseKLConfig(target="lobes"),
        optim=adam(5e-3),
        train=Train(steps=2000, batch=256, log_every=50, eval_every=200, ema=0.99),
    )
