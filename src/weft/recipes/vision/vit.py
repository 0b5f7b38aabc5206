"""Vision Transformers that name the class of an image."""

from __future__ import annotations

from weft.data.images.augment import Augment
from weft.data.images.digits import DigitsConfig
from weft.data.images.pixels import ImagesConfig
from weft.models.vision.vit import ViTConfig
from weft.objectives.classification import ClassificationConfig
from weft.recipes.base import Progress, Recipe
from weft.training.optimizer.settings import AdamW, Muon
from weft.training.schedule import Schedule
from weft.training.settings import Train

ACCURACY = Progress(metric="accuracy", goal="max")


def adamw(lr: float, warmup: int) -> AdamW:
    return AdamW(lr=lr, weight_decay=0.05, clip_norm=1.0, schedule=Schedule(kind="cosine", warmup=warmup))


def digits() -> Recipe:
    """ViT on scikit-learn's digits, 16 patches of 2 by 2 pixels.

    Run:      weft train vit/digits
    Expect:   validation accuracy 0.975 to 0.986 after 800 steps; about half a minute of one CPU core.
    """
    return Recipe(
        data=DigitsConfig(flat=False),
        model=ViTConfig(patch=2, layers=4, heads=4, width=64, dropout=0.1, init_std=0.1),
        objective=ClassificationConfig(),
        optim=adamw(2e-3, warmup=100),
        train=Train(steps=800, batch=64, log_every=50, eval_every=100),
        progress=ACCURACY,
    )


def images() -> Recipe:
    """ViT on your own images, one subfolder per class, scaled to 64 by 64 pixels.

    Run:      weft train vit/images --data.path folder/
    """
    return Recipe(
        data=ImagesConfig(size=64, augment=Augment(flip=0.5, crop=6)),
        model=ViTConfig(patch=8, layers=6, heads=3, width=192, dropout=0.1, init_std=0.05),
        objective=ClassificationConfig(),
        optim=adamw(1e-3, warmup=200),
        train=Train(steps=4000, batch=64, log_every=50, eval_every=400),
        progress=ACCURACY,
    )


CIFAR10 = ImagesConfig(
    path="cifar10",
    validation=0.05,
    mean=(0.4914, 0.4822, 0.4465),
    std=(0.247, 0.2435, 0.2616),
    augment=Augment(flip=0.5, crop=4, color_jitter=0.2, tones=0.5),
    mixup=0.5,
)
"""A Transformer knows nothing of images beforehand: with few of them it learns them by heart, unless it never sees the same one twice."""


def cifar10() -> Recipe:
    """ViT of 12.5 M parameters on CIFAR-10, 64 patches of 4 by 4 pixels; half of the images mixed in twos, 4.6 M of them in all; Muon.

    Run:      weft train vit/cifar10
              weft evaluate RUN --data.validate_on test
    Expect:   92.3 % of the test images after learning from all 50,000; 3 min of an H200.
    """
    schedule = Schedule(kind="cosine", warmup=500)
    return Recipe(
        data=CIFAR10,
        model=ViTConfig(patch=4, layers=7, heads=6, width=384, init_std=0.05),
        objective=ClassificationConfig(label_smoothing=0.1),
        optim=Muon(lr=2e-3, adamw_lr=1e-3, betas=(0.9, 0.999), weight_decay=0.1, clip_norm=1.0, schedule=schedule),
        train=Train(steps=9000, batch=512, log_every=100, eval_every=2000, save_every=5000, ema=0.999),
        progress=ACCURACY,
    )
