"""Which of eight Gaussians on a ring each variant of the game finds (Metz et al., 2016, arXiv:1611.02163)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from weft.core.config import Config
from weft.recipes.base import recipe
from weft.report.curves import Curve
from weft.report.svg import chart
from weft.studies.base import Finding
from weft.studies.generative.adversarial import measured, train
from weft.studies.scatter import scatter
from weft.training.trainer import Trainer
from weft.visual.grids import draw

SHOWN = 500


@dataclass(frozen=True, kw_only=True)
class Settings(Config):
    steps: int = 600
    """Updates of each generator."""
    variants: tuple[str, ...] = ()
    """Names of those to train; () for all."""
    seed: int = 1
    """Of the weights, the order and the noise."""


VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "vanilla": ("gan/ring", {}),
    "minibatch discrimination": ("gan/ring", {"model.minibatch_kernels": 16}),
    "feature matching": ("gan/ring", {"objective.adversarial_weight": 0.0, "objective.feature_matching": 1.0}),
    "historical averaging": ("gan/ring", {"objective.historical_averaging": 1e-3}),
    "one-sided smoothing": ("gan/ring", {"objective.label_smoothing": (0.1, 0.0)}),
    "WGAN, clipped": ("wgan/ring", {}),
    "WGAN-GP": ("wgan_gp/ring", {}),
}
Course = list[tuple[int, float, float, float, float]]
"""(step, modes, good share, imbalance, worth of the game to the discriminator) over time."""
Row = dict[str, tuple[Course, list[list[float]]]]
"""For each variant its course, and points drawn at the end."""


def run(settings: Settings, name: str) -> tuple[Course, list[list[float]]]:
    """Train one variant and follow it."""
    base, changes = VARIANTS[name]
    data = recipe(base).data.build()
    course: Course = []

    def look(trainer: Trainer) -> None:
        numbers = measured(trainer, data)
        course.append((trainer.step, numbers["modes"], numbers["good"], numbers["imbalance"], -numbers["discriminator_loss"]))

    fixed = {"train.steps": settings.steps, "train.seed": settings.seed}
    trainer, _ = train(recipe(base), fixed | changes, look, max(1, settings.steps // 10))
    with torch.no_grad():
        points = draw(trainer.model.eval(), SHOWN, settings.seed).tolist()
    return course, points


def study(settings: Settings) -> Finding:
    """Train every variant on the ring and count the modes that it draws."""
    return describe(settings, {name: run(settings, name) for name in settings.variants or tuple(VARIANTS)})


def describe(settings: Settings, found: Row) -> Finding:
    held = recipe("gan/ring").data.build().validation
    assert held is not None
    index = torch.arange(min(SHOWN, len(held)))
    real = held.batch(index, index)["point"].tolist()
    panels = [("data", [(real, "c0")]), *((name, [(points, "c1")]) for name, (_, points) in found.items())]
    modes = [Curve(name, [(step, number) for step, number, *_ in course], f"c{i}") for i, (name, (course, _)) in enumerate(found.items())]
    good = [
        Curve(name, [(step, 100 * share) for step, _, share, *_ in course], f"c{i}") for i, (name, (course, _)) in enumerate(found.items())
    ]
    figure = scatter("what each draws at the end", panels, 3.0)
    figure += chart("modes covered, by step", modes, tall=True) + chart("good samples (%), by step", good, tall=True)
    rows = tuple((name, f"{course[-1][1]:.0f} of 8", f"{course[-1][2]:.1%}", together(course)) for name, (course, _) in found.items())
    few = [name for name, (course, _) in found.items() if course[-1][1] < 8]
    claim = (
        f"After {settings.steps} updates of the generator, of eight Gaussians on a ring not all are found by: {', '.join(few) or 'none'}."
    )
    head = ("variant", "modes", "good samples", "worth of the game and imbalance: correlation from its peak on")
    return Finding("Mode collapse", claim, head, rows, figure)


def together(course: Course) -> str:
    """Correlation of what the game is worth to the discriminator with how unevenly the modes are drawn, from its peak on.

    Before the peak the discriminator itself is still learning, and its word says little of the samples; it may come too late to tell.
    """
    worths = [worth for *_, worth in course]
    learned = course[worths.index(max(worths)) :]
    if len(learned) < 4:
        return "–"
    return f"{float(torch.corrcoef(torch.tensor([(row[3], row[4]) for row in learned], dtype=torch.float64).mT)[0, 1]):.2f}"
