"""What the Fréchet distance notices and the Inception score does not (Heusel et al., 2017, arXiv:1706.08500, figure 3).

Real images are blurred or made noisy, more and more. The distance to the images as they were rises; the Inception score, which only
asks whether each image is surely of a class and all classes occur, hardly moves until the classes themselves are lost.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from weft.core import random
from weft.core.config import Config
from weft.data.images.augment import add_noise
from weft.evaluation.image_measures import Extractor, Seen, plain
from weft.report.curves import Curve
from weft.report.svg import chart
from weft.runs.load import load
from weft.studies.base import Finding
from weft.studies.generative.autoencoders import trained


@dataclass(frozen=True, kw_only=True)
class Settings(Config):
    extractor: str = ""
    """Run of a classifier/…_extractor, on whose data images are taken; empty trains one on scikit-learn's digits."""
    steps: int = 400
    """Updates of the one that is trained."""
    images: int = 10_000
    """Largest number of images."""
    blurs: tuple[float, ...] = (0.0, 0.2, 0.3, 0.4, 0.45, 0.5)
    """Standard deviations of the blur, in pixels."""
    noises: tuple[float, ...] = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25)
    """Standard deviations of the noise, where white is 1."""
    seed: int = 1
    """Of the noise, and of the training."""


@dataclass(frozen=True)
class Point:
    level: float
    distance: float
    score: float


def blurred(images: Tensor, deviation: float) -> Tensor:
    """images (B, C, H, W) under a Gaussian blur; the border is continued."""
    if not deviation:
        return images
    reach = max(1, math.ceil(3 * deviation))
    places = torch.arange(-reach, reach + 1, dtype=images.dtype, device=images.device)
    kernel = (-0.5 * (places / deviation).square()).exp()
    kernel = (kernel / kernel.sum()).expand(images.size(1), 1, -1)  # (C, 1, 2 * reach + 1)
    padded = F.pad(images, [reach] * 4, mode="replicate")
    across = F.conv2d(padded, kernel[:, :, None], groups=images.size(1))
    return F.conv2d(across, kernel[..., None], groups=images.size(1))


def noisy(images: Tensor, deviation: float, seed: int) -> Tensor:
    """images (B, C, H, W) with Gaussian noise, clipped to [0, 1]."""
    key = random.keys(random.seed_of(seed, "noise"), torch.arange(len(images))).to(images.device)
    return add_noise(images, key, deviation)


@torch.no_grad()
def course(extractor: Extractor, images: Tensor, change: Callable[[Tensor, float], Tensor], levels: tuple[float, ...]) -> list[Point]:
    """Distance to the images as they are, and score, at every level of a change."""
    before = Seen(extractor, iter(torch.split(images, 256)))
    found = []
    for level in levels:
        after = Seen(extractor, iter(torch.split(change(images, level), 256)))
        found.append(Point(level, after.distance(before), after.score.value()))
    return found


def study(settings: Settings) -> Finding:
    """Change the images in both ways and measure them."""
    extractor, images = prepare(settings)
    found = {
        "blur": course(extractor, images, blurred, settings.blurs),
        "noise": course(extractor, images, lambda x, level: noisy(x, level, settings.seed), settings.noises),
    }
    halves = [Seen(extractor, iter(torch.split(images[part::2], 256))) for part in (0, 1)]
    return describe(extractor.name, len(images), halves[0].distance(halves[1]), found)


def prepare(settings: Settings) -> tuple[Extractor, Tensor]:
    """The network and the images (N, C, H, W), those it was validated on."""
    if settings.extractor:
        loaded = load(settings.extractor)
        extractor, data = Extractor.of(loaded), plain(loaded.recipe.data).build_with(loaded.tokenizer)
    else:
        made = trained("classifier/digits_extractor", {"train.steps": settings.steps, "train.seed": settings.seed})
        extractor, data = Extractor(made.trainer.model, made.recipe.name), plain(made.recipe.data).build()
    held = data.validation or data.train
    index = torch.arange(min(settings.images, len(held)))
    device = next(extractor.model.parameters()).device
    images: Tensor = held.batch(index, torch.zeros_like(index))["image"].to(device)
    return extractor, images.view(len(images), *extractor.image)


def describe(name: str, number: int, apart: float, found: dict[str, list[Point]]) -> Finding:
    """Figures and table; `apart` is the distance of the two halves of the images as they are."""
    figure, rows, said = "", [], []
    for kind, points in found.items():
        for what, value in ((f"FID-{name}", "distance"), (f"IS-{name}", "score")):
            line = [(point.level, float(getattr(point, value))) for point in points]
            figure += chart(f"{what}, by the standard deviation of the {kind}", [Curve(what, line, "c0")], across=kind)
        rows += [(kind, f"{p.level:g}", f"{p.distance:.4f}", f"{p.score:.3f}") for p in points]
        first, last = points[0], points[-1]
        share = 100 * (last.score / first.score - 1)
        said.append(f"under {kind} up to {last.level:g} the distance rises to {last.distance:.3f} and the score changes by {share:+.1f} %")
    claim = f"{number:,} images, whose halves are {apart:.3f} apart: {'; '.join(said)}."
    return Finding("FID and noise", claim, ("change", "deviation", f"FID-{name}", f"IS-{name}"), tuple(rows), figure)
