"""What single dimensions of a code mean, seen by moving one of them and holding the others.

A VAE, or a β-VAE, is trained on scikit-learn's digits; its dimensions are ranked by the nats they hold. Moving one that holds many
changes the image along one direction (thickness, slant, a closed or open loop); moving one that holds none changes nothing.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from html import escape

import torch
from torch import Tensor

from weft.core.config import Config
from weft.core.errors import ConfigError
from weft.report.parts import card
from weft.runs.run import Run
from weft.studies.base import Finding
from weft.studies.generative.autoencoders import nats_of_dimensions, trained
from weft.visual.grids import png
from weft.visual.latent_interpolation import FAR, STEPS, interpolate, latents, show


@dataclass(frozen=True, kw_only=True)
class Settings(Config):
    beta: float = 1.0
    """Weight of the KL."""
    steps: int = 2000
    """Updates of the run."""
    rows: int = 8
    """Dimensions that are shown, those with the most nats first; the last row shows the one with the fewest."""
    seed: int = 1
    """Of the weights, the order, the noise and the image that is changed."""


@torch.no_grad()
def traverse(made: Run, dimensions: list[int], seed: int) -> Tensor:
    """Images (rows, STEPS, ...) of one code in which each dimension goes from -FAR to FAR."""
    start = latents(made.trainer.model, 1, seed)  # (1, Z)
    path = start.repeat(len(dimensions) * STEPS, 1).view(len(dimensions), STEPS, -1)
    for row, dimension in enumerate(dimensions):
        path[row, :, dimension] = torch.linspace(-FAR, FAR, STEPS)
    images = show(made.trainer.model, path.flatten(0, 1))
    return images.view(len(dimensions), STEPS, *images.shape[1:])


def study(settings: Settings) -> Finding:
    """Train, rank the dimensions and move each."""
    if settings.rows < 2:
        raise ConfigError(f"--rows must be at least 2, not {settings.rows}")
    changes = {
        "objective.beta": settings.beta,
        "train.steps": settings.steps,
        "train.eval_every": settings.steps,
        "train.seed": settings.seed,
    }
    made = trained("vae/beta", changes)
    nats = nats_of_dimensions(made)
    ranked = nats.argsort(descending=True).tolist()
    chosen = [*ranked[: settings.rows - 1], ranked[-1]]
    images = traverse(made, chosen, settings.seed)
    change = (images[:, -1] - images[:, 0]).abs().flatten(1).mean(1)  # of a pixel, from one end to the other
    walk = interpolate(made.trainer.model, 4, seed=settings.seed)
    figure = sheet("one dimension moved in each row, those with the most nats first", images.flatten(0, 1))
    figure += sheet("from one draw to the next", walk)
    rows = tuple((str(d), f"{float(nats[d]):.3f}", f"{float(c):.4f}") for d, c in zip(chosen, change, strict=True))
    claim = (
        f"β = {settings.beta:g}: the dimension with the most nats ({float(nats[chosen[0]]):.2f}) changes a pixel by {float(change[0]):.3f} "
        f"in the mean as it goes from -{FAR:g} to {FAR:g}, "
        f"the one with the fewest ({float(nats[chosen[-1]]):.3f}) by {float(change[-1]):.4f}."
    )
    return Finding("Latent traversal", claim, ("dimension", "nats", "change of a pixel"), rows, figure)


def sheet(title: str, images: Tensor) -> str:
    """Images in rows of STEPS, as a part of a page."""
    picture = base64.b64encode(png(images, columns=STEPS)).decode()
    return card(f'<h3>{escape(title)}</h3><img src="data:image/png;base64,{picture}" alt="{escape(title)}">')
