"""PixelCNN and gated PixelCNN: images pixel by pixel."""

from __future__ import annotations

from weft.data.images.digits import DigitsConfig
from weft.data.images.pixels import ImagesConfig
from weft.models.generative.gated_pixelcnn import GatedPixelCNNConfig
from weft.models.generative.pixelcnn import PixelCNNConfig
from weft.objectives.generative.likelihood import LikelihoodConfig
from weft.recipes.base import Recipe
from weft.training.optimizer.settings import AdamW
from weft.training.schedule import Schedule
from weft.training.settings import Train


def adamw(lr: float, weight_decay: float, warmup: int) -> AdamW:
    return AdamW(lr=lr, weight_decay=weight_decay, clip_norm=50.0, schedule=Schedule(kind="cosine", warmup=warmup))


def digits() -> Recipe:
    """PixelCNN on scikit-learn's digits in black and white.

    Run:      weft train pixelcnn/digits
    """
    return Recipe(
        data=DigitsConfig(binarise="threshold", flat=False),
        model=PixelCNNConfig(layers=4, width=32, dropout=0.3),
        objective=LikelihoodConfig(),
        optim=adamw(2e-3, 0.1, warmup=50),
        train=Train(steps=800, batch=64, log_every=50, eval_every=100, ema=0.99),
    )


def mnist() -> Recipe:
    """PixelCNN of 15 blocks on MNIST, binarised anew each time an image is seen.

    Run:      weft train pixelcnn/mnist
              weft evaluate RUN --data.validate_on test
    """
    return Recipe(
        data=ImagesConfig(path="mnist", binarise="dynamic", validation=0.05),
        model=PixelCNNConfig(layers=15, width=64),
        objective=LikelihoodConfig(),
        optim=adamw(1e-3, 0.01, warmup=500),
        train=Train(steps=12_000, batch=128, log_every=100, eval_every=2000, save_every=4000, ema=0.999),
    )


def images() -> Recipe:
    """PixelCNN on your own images, scaled to 16 by 16 pixels, 256 levels of each colour.

    Run:      weft train pixelcnn/images --data.path folder/
    """
    return Recipe(
        data=ImagesConfig(size=16),
        model=PixelCNNConfig(levels=256, layers=7, width=48, dropout=0.1),
        objective=LikelihoodConfig(),
        optim=adamw(1e-3, 0.01, warmup=200),
        train=Train(steps=5000, batch=32, log_every=50, eval_every=500, ema=0.999),
    )


def gated_digits() -> Recipe:
    """Gated PixelCNN on scikit-learn's digits in black and white.

    Run:      weft train gated_pixelcnn/digits
    """
    return Recipe(
        data=DigitsConfig(binarise="threshold", flat=False),
        model=GatedPixelCNNConfig(layers=4, width=32, first_kernel=5, dropout=0.3),
        objective=LikelihoodConfig(),
        optim=adamw(2e-3, 0.1, warmup=50),
        train=Train(steps=800, batch=64, log_every=50, eval_every=100, ema=0.99),
    )


def gated_mnist() -> Recipe:
    """Gated PixelCNN of 13 layers on MNIST, binarised anew each time an image is seen.

    Run:      weft train gated_pixelcnn/mnist
              weft evaluate RUN --data.validate_on test
    """
    return Recipe(
        data=ImagesConfig(path="mnist", binarise="dynamic", validation=0.05),
        model=GatedPixelCNNConfig(layers=12, width=64),
        objective=LikelihoodConfig(),
        optim=adamw(1e-3, 0.01, warmup=500),
        train=Train(steps=14_000, batch=128, log_every=100, eval_every=2000, save_every=4000, ema=0.999),
    )
