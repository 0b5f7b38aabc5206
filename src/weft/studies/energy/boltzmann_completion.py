"""Images filled in and cleaned by a Boltzmann machine with hidden units.

The machine learns black and white digits; then the lower half of digits that it has not seen is drawn given the upper half, and
digits with a tenth of their pixels turned over are cleaned. Both are Gibbs sampling with what was seen as evidence. The mean image,
the best guess without looking, is what both must beat.
"""

from __future__ import annotations

import base64
import tempfile
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from weft.core import random
from weft.core.config import Config
from weft.core.errors import ConfigError
from weft.data.base import DataLoader, Dataset
from weft.data.images.pixels import ImagesConfig
from weft.recipes.base import recipe
from weft.report.parts import card
from weft.runs.assemble import assemble
from weft.runs.run import Run
from weft.studies.base import Finding
from weft.visual.grids import png

FLIPPED = 0.1
SHOWN = 16


@dataclass(frozen=True, kw_only=True)
class Settings(Config):
    path: str = ""
    """Folder of images, as mnist below WEFT_DATA; without one, scikit-learn's digits of 8 by 8 pixels."""
    size: int = 14
    """Side to which the images of a folder are scaled."""
    hidden: int = 32
    """Hidden units."""
    steps: int = 1500
    """Updates."""
    rate: float = 0.1
    """Learning rate at the start."""
    examples: int = 500
    """Images that are filled in and cleaned, at most."""
    seed: int = 1
    """Of everything."""


def trained(settings: Settings, folder: Path) -> Run:
    """The recipe of the family, on the images that the settings name."""
    changes: dict[str, Any] = {
        "model.hidden": settings.hidden,
        "objective.hidden": settings.hidden,
        "optim.lr": settings.rate,
        "train.steps": settings.steps,
        "train.seed": settings.seed,
        "train.eval_every": 0,
    }
    if settings.path:
        changes["data"] = ImagesConfig(path=settings.path, size=settings.size, channels=1, flat=True, binarise="threshold")
    made = assemble(recipe("boltzmann/digits", changes), folder)
    made.trainer.fit()
    return made


def images(data: Dataset, most: int, device: torch.device) -> Tensor:
    """The first images (N, X) of a data set."""
    found: Tensor = DataLoader(data, 0, device, shuffle=False).batch(0, min(most, len(data)))["image"].flatten(1)
    return found


@dataclass(frozen=True)
class Results:
    """Images (N, X): as they are, with half known, filled in, turned over in part, cleaned; and the mean image (X,)."""

    whole: Tensor
    known: Tensor
    filled: Tensor
    noisy: Tensor
    cleaned: Tensor
    mean: Tensor

    def errors(self) -> dict[str, float]:
        """Shares of wrong pixels: of the unknown half, and of all."""

        def wrong(guess: Tensor, where: Tensor) -> float:
            return float(((guess >= 0.5) != (self.whole >= 0.5))[where].float().mean())

        mean, everywhere = self.mean.expand_as(self.whole), torch.ones_like(self.known)
        return {
            "lower half, filled in": wrong(self.filled, ~self.known),
            "lower half, mean image": wrong(mean, ~self.known),
            "all, cleaned": wrong(self.cleaned, everywhere),
            "all, as damaged": wrong(self.noisy, everywhere),
            "all, mean image": wrong(mean, everywhere),
        }


@torch.no_grad()
def results(made: Run, settings: Settings) -> Results:
    """Fill in and clean the images that training did not see."""
    if made.data.validation is None:
        raise ConfigError("--path: there are no images left to fill in; give a folder with more of them")
    model: Any = made.trainer.model.eval()
    device = made.trainer.plan.device
    x = images(made.data.validation, settings.examples, device)
    key = random.keys(random.seed_of(settings.seed, "restore"), torch.arange(len(x))).to(device)
    known = (torch.arange(x.size(1), device=device) < x.size(1) // 2).expand_as(x)
    noisy = torch.where(random.uniform(random.fold(key, "flip"), x.size(1)) < FLIPPED, 1 - x, x)
    filled = model.inpaint(x, known, random.fold(key, "complete"), 100)
    cleaned = model.denoise(noisy, FLIPPED, random.fold(key, "denoise"), 100)
    return Results(x, known, filled, noisy, cleaned, images(made.data.train, 10_000, device).mean(0))


def picture(found: Results, shape: tuple[int, ...]) -> str:
    """Rows of images: whole, upper half, filled in, damaged, cleaned."""
    half = torch.where(found.known, found.whole, 0.5)
    some = [part[:SHOWN].view(-1, *shape) for part in (found.whole, half, found.filled, found.noisy, found.cleaned)]
    sheet = base64.b64encode(png(torch.cat(some), columns=len(some[0]))).decode()
    title = "From the top: an image, its upper half, the chance of each pixel of the lower, the image damaged, and cleaned"
    return card(f'<h3>{escape(title)}</h3><img src="data:image/png;base64,{sheet}" alt="{escape(title)}">')


def study(settings: Settings) -> Finding:
    """Train, fill in, clean, and compare with the mean image."""
    with tempfile.TemporaryDirectory() as folder:
        made = trained(settings, Path(folder))
    found = results(made, settings)
    errors = found.errors()
    shown = {name: f"{100 * value:.1f} %" for name, value in errors.items()}
    claim = f"Of the lower halves, {shown['lower half, filled in']} of the pixels are wrong where the machine fills it in from the upper,"
    claim += f" {shown['lower half, mean image']} where the mean image does. Of images with {100 * FLIPPED:.0f} % of the pixels turned"
    claim += f" over, {shown['all, cleaned']} are wrong after cleaning."
    figure = picture(found, made.data.info["image"])
    return Finding("Images filled in by a Boltzmann machine", claim, ("pixels", "wrong"), tuple(shown.items()), figure)
