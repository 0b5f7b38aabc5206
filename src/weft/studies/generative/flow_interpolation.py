"""Images between four images, by way of the latents of a flow: encoded exactly, joined by arcs, decoded exactly.

Without --run a small RealNVP is trained on scikit-learn's digits first, about a minute on a CPU.
"""

from __future__ import annotations

import base64
import tempfile
from dataclasses import dataclass

import torch
from torch import Tensor

from weft.api import train
from weft.core.config import Config
from weft.core.errors import ConfigError, DataError
from weft.data.base import DataLoader, Dataset
from weft.models.base import Inverts, need
from weft.objectives.generative.likelihood import dequantise
from weft.recipes.base import recipe
from weft.report.parts import card
from weft.runs.load import Loaded, load
from weft.studies.base import Finding
from weft.visual.grids import png
from weft.visual.latent_sheet import between_corners


@dataclass(frozen=True, kw_only=True)
class Settings(Config):
    run: str = ""
    """A trained run of a flow on images; none trains realnvp/digits."""
    images: tuple[int, int, int, int] = (0, 1, 2, 3)
    """Numbers of four validation images."""
    side: int = 9
    """Images in a row and in a column."""
    steps: int = 0
    """Training steps where no run is given; 0 for those of the recipe."""


def flow(settings: Settings) -> Loaded:
    if settings.run:
        return load(settings.run)
    with tempfile.TemporaryDirectory() as folder:
        changes = {"train.steps": settings.steps, "train.eval_every": settings.steps} if settings.steps else {}
        train(recipe("realnvp/digits", changes), out=folder, progress=False)
        return load(folder)


def chosen(loaded: Loaded, numbers: tuple[int, ...]) -> Tensor:
    """The images of these numbers among those not trained on, as the model was shown them, noise within their levels included."""
    held: Dataset | None = loaded.recipe.data.build_with(loaded.tokenizer).validation
    if held is None or not all(0 <= number < len(held) for number in numbers):
        raise DataError(f"--images: {numbers} must be numbers of the {len(held) if held else 0} validation images, counted from 0")
    source = DataLoader(held, loaded.recipe.train.seed, next(loaded.model.parameters()).device, shuffle=False)
    batches, levels = [source.batch(number, 1) for number in numbers], getattr(loaded.recipe.objective, "levels", 0)
    return torch.cat([dequantise(b["image"], b["key"], levels) if levels else b["image"] for b in batches])


@torch.no_grad()
def study(settings: Settings) -> Finding:
    """Draw the sheet between four validation images, and measure what the way there and back costs."""
    if settings.side < 2:
        raise ConfigError(f"--side must be at least 2, not {settings.side}")
    with torch.enable_grad():
        loaded = flow(settings)
    need(loaded.model, Inverts)
    model = loaded.model
    x = chosen(loaded, settings.images)
    z: Tensor = model.to_latent(x)
    sheet = between_corners(z, settings.side, settings.side)
    shown: Tensor = model.to_data(sheet.flatten(0, 1))
    error = float((model.to_data(z).flatten(1) - x.flatten(1)).abs().max())
    figure = base64.b64encode(png(shown, columns=settings.side)).decode()
    lengths = sheet.norm(dim=2)
    middle = lengths[settings.side // 2, settings.side // 2]
    rows = [(f"image {number}", f"{float(length):.2f}") for number, length in zip(settings.images, z.norm(dim=1), strict=True)]
    rows += [("middle of the sheet", f"{float(middle):.2f}"), ("a draw of the model, on average", f"{z.size(1) ** 0.5:.2f}")]
    claim = (
        f"Four images, in the corners, are encoded and decoded with an error of {error:.1g} at most. Between them latents follow arcs, "
        f"whose lengths stay between {float(lengths.min()):.1f} and {float(lengths.max()):.1f}; the middle of a straight way would have "
        f"{float(z.mean(0).norm()):.1f}."
    )
    page = card(f'<img src="data:image/png;base64,{figure}" alt="Images between four images">')
    return Finding("Between four images", claim, ("latent of", "length"), tuple(rows), page)
