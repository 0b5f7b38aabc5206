"""What is left of a GAN's samples when its generator is made badly (figures 5 to 7 of Arjovsky et al., 2017, arXiv:1701.07875).

The same generators, as DCGAN has it, without batch normalisation, and of fully connected layers, are trained by the vanilla game and
as WGAN with a gradient penalty; drawn is the Fréchet distance of their pixels to validation images (smaller is nearer).
On a GPU: weft study wgan-robustness --path mnist --width 64 --steps 10000.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from weft.config import Config
from weft.data.digits import DigitsConfig
from weft.data.images import ImagesConfig
from weft.recipes.base import recipe
from weft.report.svg import Curve, chart
from weft.studies.adversarial import measured, train
from weft.studies.base import Finding
from weft.training.optim import Adam
from weft.training.trainer import Trainer


@dataclass(frozen=True, kw_only=True)
class Settings(Config):
    path: str = ""
    """A folder of images, as of the images data; "" takes scikit-learn's digits."""
    width: int = 16
    """Channels next to the image."""
    steps: int = 200
    """Updates of each generator."""
    seed: int = 1
    """Of the weights, the order and the noise."""


GENERATORS: dict[str, dict[str, Any]] = {
    "as DCGAN": {},
    "no batch norm": {"model.generator_norm": "none"},
    "fully connected": {"model.perceptron": 512},
}
GAMES: dict[str, dict[str, Any]] = {
    "vanilla": {"optim.generator.lr": 2e-4, "objective.smoothing": (0.0, 0.0)},
    "WGAN-GP": {
        "objective.loss": "wasserstein",
        "objective.smoothing": (0.0, 0.0),
        "objective.discriminator_turns": 5,
        "objective.penalty": 10.0,
        "model.discriminator_norm": "layer",
        "optim": {name: Adam(lr=2e-4, betas=(0.0, 0.9)) for name in ("discriminator", "generator")},
    },
}


def course(settings: Settings, changes: dict[str, Any]) -> list[tuple[float, float]]:
    """Fréchet distance of pixels over the steps of a training with these changes."""
    data = ImagesConfig(path=settings.path) if settings.path else DigitsConfig(flat=False)
    fixed = {"data": data, "model.width": settings.width, "train.steps": settings.steps, "train.seed": settings.seed, "train.ema": 0.0}
    held = data.build()
    found: list[tuple[float, float]] = []

    def look(trainer: Trainer) -> None:
        found.append((trainer.step, measured(trainer, held, 2000)["frechet_pixels"]))

    train(recipe("dcgan/digits"), fixed | changes, look, max(1, settings.steps // 10))
    return found


def study(settings: Settings) -> Finding:
    """Every generator under both games."""
    courses = {(g, name): course(settings, change | how) for g, change in GENERATORS.items() for name, how in GAMES.items()}
    found = {g: {name: courses[g, name][-1][1] for name in GAMES} for g in GENERATORS}
    figure = "".join(
        chart(
            f"{name}: Fréchet distance of pixels, by step of the generator",
            [Curve(g, courses[g, name], f"c{i}") for i, g in enumerate(GENERATORS)],
            tall=True,
        )
        for name in GAMES
    )
    rows = tuple((g, *(f"{values[name]:.3f}" for name in GAMES)) for g, values in found.items())
    worse = {name: max(values[name] for values in found.values()) / min(values[name] for values in found.values()) for name in GAMES}
    told = " and ".join(f"{factor:.1f} times for {name}" for name, factor in worse.items())
    return Finding(
        "Bad generators", f"From the best to the worst generator the distance grows {told}.", ("generator", *GAMES), rows, figure
    )
