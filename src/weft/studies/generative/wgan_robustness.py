"""What is left of a GAN's samples when its generator is made badly (figures 5 to 7 of Arjovsky et al., 2017, arXiv:1701.07875).

The same generators, as DCGAN has it, without batch normalisation, and of fully connected layers, are trained by the vanilla game and
as WGAN with a gradient penalty; drawn is the Fréchet distance of their pixels to validation images (smaller is nearer), and with
--extractor that of a network's features, FID, stands in the table too. A few hundred steps on a CPU show how it is done, not who wins.
On a GPU: weft study wgan-robustness --path mnist --width 64 --steps 10000 --extractor runs/classifier-mnist_extractor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from weft.core.config import Config
from weft.data.base import Data
from weft.data.images.digits import DigitsConfig
from weft.data.images.pixels import ImagesConfig
from weft.evaluation import image_measures
from weft.evaluation.image_measures import Extractor, Seen
from weft.recipes.base import recipe
from weft.report.curves import Curve
from weft.report.svg import chart
from weft.studies.base import Finding
from weft.studies.generative.adversarial import measured, train
from weft.training.optimizer.settings import Adam
from weft.training.trainer import Trainer


@dataclass(frozen=True, kw_only=True)
class Settings(Config):
    path: str = ""
    """A folder of images, as of the images data; "" takes scikit-learn's digits."""
    width: int = 16
    """Channels next to the image."""
    steps: int = 200
    """Updates of each generator."""
    extractor: str = ""
    """Run of a classifier/…_extractor for the same images, by whose features samples are compared at the end; none for pixels alone."""
    seed: int = 1
    """Of the weights, the order and the noise."""


GENERATORS: dict[str, dict[str, Any]] = {
    "as DCGAN": {},
    "no batch norm": {"model.generator_norm": "none"},
    "fully connected": {"model.mlp_width": 512},
}
GAN_LOSSES: dict[str, dict[str, Any]] = {
    "vanilla": {"optim.generator.lr": 2e-4, "objective.label_smoothing": (0.0, 0.0)},
    "WGAN-GP": {
        "objective.loss": "wasserstein",
        "objective.label_smoothing": (0.0, 0.0),
        "objective.discriminator_steps": 5,
        "objective.gradient_penalty": 10.0,
        "model.discriminator_norm": "layer",
        "optim": {name: Adam(lr=2e-4, betas=(0.0, 0.9)) for name in ("discriminator", "generator")},
    },
}


@dataclass(frozen=True)
class Course:
    pixels: list[tuple[float, float]]
    """Fréchet distance of pixels over the steps."""
    features: float | None
    """That of an extractor's features at the end."""

    def summary(self) -> str:
        return f"{self.pixels[-1][1]:.3f}" + ("" if self.features is None else f" ({self.features:.1f})")


def course(settings: Settings, changes: dict[str, Any], extractor: Extractor | None) -> Course:
    """A training with these changes, looked at as it goes."""
    data = ImagesConfig(path=settings.path) if settings.path else DigitsConfig(flat=False)
    fixed = {"data": data, "model.width": settings.width, "train.steps": settings.steps, "train.seed": settings.seed, "train.ema": 0.0}
    held = data.build()
    found: list[tuple[float, float]] = []

    def look(trainer: Trainer) -> None:
        found.append((trainer.step, measured(trainer, held, 2000)["frechet_pixels"]))

    trainer, _ = train(recipe("dcgan/digits"), fixed | changes, look, max(1, settings.steps // 10))
    return Course(found, distance(extractor, trainer, held) if extractor else None)


@torch.no_grad()
def distance(extractor: Extractor, trainer: Trainer, data: Data) -> float:
    """FID of as many samples as there are validation images to these."""
    assert data.validation is not None
    real = Seen(extractor, image_measures.real(data.validation, trainer.plan.device))
    model: Any = trainer.model.eval()
    return Seen(extractor, image_measures.drawn(model, len(data.validation))).distance(real)


def study(settings: Settings) -> Finding:
    """Every generator under both games."""
    extractor = Extractor.of(settings.extractor) if settings.extractor else None
    courses = {(g, name): course(settings, change | how, extractor) for g, change in GENERATORS.items() for name, how in GAN_LOSSES.items()}
    found = {g: {name: courses[g, name].pixels[-1][1] for name in GAN_LOSSES} for g in GENERATORS}
    figure = "".join(
        chart(
            f"{name}: Fréchet distance of pixels, by step of the generator",
            [Curve(g, courses[g, name].pixels, f"c{i}") for i, g in enumerate(GENERATORS)],
            tall=True,
        )
        for name in GAN_LOSSES
    )
    rows = tuple((g, *(courses[g, name].summary() for name in GAN_LOSSES)) for g in GENERATORS)
    worse = {name: max(values[name] for values in found.values()) / min(values[name] for values in found.values()) for name in GAN_LOSSES}
    summary = " and ".join(f"{factor:.1f} times for {name}" for name, factor in worse.items())
    kind = f"generator (in brackets FID-{extractor.name})" if extractor else "generator"
    return Finding(
        "Bad generators", f"From the best to the worst generator the distance grows {summary}.", (kind, *GAN_LOSSES), rows, figure
    )
