"""Translating images, with pairs (pix2pix) and without (CycleGAN)."""

from __future__ import annotations

from weft.data.images.domains import DomainsConfig
from weft.data.images.paired import ImagePairsConfig, OutlinesConfig
from weft.data.images.unpaired import UnpairedImagesConfig
from weft.models.generative.cyclegan import CycleGANConfig
from weft.models.generative.pix2pix import Pix2PixConfig
from weft.objectives.generative.cycle import CycleConfig
from weft.objectives.generative.paired_images import PairedImagesConfig
from weft.recipes.base import Progress, Recipe
from weft.recipes.generative.gan import NEARER, adam
from weft.training.optimizer.settings import Adam
from weft.training.schedule import Schedule
from weft.training.settings import Train


def pix2pix_digits() -> Recipe:
    """U-Net and PatchGAN that fill in the outlines of scikit-learn's digits.

    Run:      weft train pix2pix/digits
    """
    return Recipe(
        data=OutlinesConfig(),
        model=Pix2PixConfig(width=32, patch_layers=1),
        objective=PairedImagesConfig(l1_weight=10.0),
        optim={"discriminator": adam(2e-4), "generator": adam(1e-3)},
        train=Train(steps=600, batch=32, log_every=50, eval_every=100, ema=0.99),
        progress=Progress(metric="pixel_error", goal="min"),
    )


def pix2pix_mnist() -> Recipe:
    """U-Net and PatchGAN that fill in coarse outlines of MNIST's digits.

    Run:      weft train pix2pix/mnist
    """
    return Recipe(
        data=OutlinesConfig(path="mnist", size=32, coarse=4, validation=0.1),
        model=Pix2PixConfig(patch_layers=2),
        objective=PairedImagesConfig(l1_weight=10.0),
        optim={"discriminator": adam(2e-4), "generator": adam(2e-4)},
        train=Train(steps=10_000, batch=64, log_every=100, eval_every=1000, save_every=5000, ema=0.999),
        progress=NEARER,
    )


def pix2pix_facades() -> Recipe:
    """pix2pix from labelled plans to photographs of facades.

    Run:      weft train pix2pix/facades
    """
    return Recipe(
        data=ImagePairsConfig(path="facades/facades_120.tar"),
        model=Pix2PixConfig(),
        objective=PairedImagesConfig(),
        optim={"discriminator": adam(2e-4), "generator": adam(2e-4)},
        train=Train(steps=12_000, batch=4, log_every=100, eval_every=1000, save_every=4000),
        progress=NEARER,
    )


def pix2pix_pairs() -> Recipe:
    """pix2pix on your own images, each two halves side by side.

    Run:      weft train pix2pix/pairs --data.path FOLDER
    """
    return Recipe(
        data=ImagePairsConfig(size=143, crop_size=128),
        model=Pix2PixConfig(),
        objective=PairedImagesConfig(),
        optim={"discriminator": adam(2e-4), "generator": adam(2e-4)},
        train=Train(steps=10_000, batch=4, log_every=100, eval_every=1000, save_every=4000),
        progress=NEARER,
    )


def cyclegan_digits() -> Recipe:
    """CycleGAN between grey digits and coloured ones, never two of the same, on scikit-learn's digits.

    Run:      weft train cyclegan/digits
    """
    return Recipe(
        data=DomainsConfig(),
        model=CycleGANConfig(width=16, downsamplings=0, blocks=1, patch_layers=1, patch_norm=False),
        objective=CycleConfig(),
        optim={"generators": adam(1e-3), "discriminators": adam(5e-4)},
        train=Train(steps=600, batch=16, log_every=50, eval_every=100, ema=0.99),
        progress=Progress(metric="translation_error", goal="min"),
    )


def cyclegan_mnist() -> Recipe:
    """CycleGAN between grey digits and coloured ones, never two of the same, on MNIST.

    Run:      weft train cyclegan/mnist
    """
    rate = Adam(lr=2e-4, betas=(0.5, 0.999), schedule=Schedule(kind="linear"))
    return Recipe(
        data=DomainsConfig(path="mnist", size=32, validation=0.1),
        model=CycleGANConfig(width=32, downsamplings=1, blocks=3, patch_norm=False),
        objective=CycleConfig(),
        optim={"generators": rate, "discriminators": rate},
        train=Train(steps=10_000, batch=32, log_every=100, eval_every=1000, save_every=5000, ema=0.999),
        progress=Progress(metric="translation_error", goal="min"),
    )


def cyclegan_folders() -> Recipe:
    """CycleGAN between your own two folders of images, which need not be of the same things.

    Run:      weft train cyclegan/folders --data.path horses --data.other zebras
              weft sample RUN --input horses --out made
    """
    rate = Adam(lr=2e-4, betas=(0.5, 0.999), schedule=Schedule(kind="linear", hold=0.5))
    return Recipe(
        data=UnpairedImagesConfig(),
        model=CycleGANConfig(),
        objective=CycleConfig(identity_weight=5.0),
        optim={"generators": rate, "discriminators": rate},
        train=Train(steps=20_000, batch=1, log_every=100, eval_every=2000, save_every=5000),
        progress=Progress(metric="cycle_error", goal="min"),
    )
