"""A one-dimensional GAN as it learns: data, generated density and discriminator at four times (figure 1 of Goodfellow et al., 2014).

The data are N(mean, deviation²). At first the discriminator tells the two apart; the generator follows its slope; at the end both densities
agree and D is 1/2 everywhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from weft.core import random
from weft.core.config import Config
from weft.data.base import DataLoader, TensorDataset
from weft.models.generative.gan import GANConfig
from weft.objectives.generative.adversarial import AdversarialConfig
from weft.report.curves import Curve
from weft.report.svg import chart
from weft.studies.base import Finding
from weft.studies.generative.adversarial import Watch
from weft.training import execution
from weft.training.optimizer.settings import Adam, OptimConfig
from weft.training.schedule import Schedule
from weft.training.settings import Train
from weft.training.trainer import Trainer

GRID = torch.linspace(-4, 6, 201)
NUMBER = 4000


@dataclass(frozen=True, kw_only=True)
class Settings(Config):
    mean: float = 1.0
    """Of the data; both networks start with all their bends at 0, and far from there a discriminator sees nothing but a slope."""
    deviation: float = 1.0
    """Of the data."""
    steps: int = 1500
    """Updates of each player."""
    discriminator_steps: int = 1
    """Updates k of the discriminator before one of the generator."""
    compare: tuple[int, ...] = (1, 5)
    """Values of k whose courses are compared; () for none."""
    seed: int = 1
    """Of the weights, the order and the noise."""


@dataclass(frozen=True)
class Panel:
    step: int
    odds: Tensor
    """D on the grid."""
    density: Tensor
    """Of what is generated, on the grid."""
    mean: float
    deviation: float
    fooled: float
    """Mean D of what is generated."""


def smooth_density(points: Tensor, width: float = 0.15) -> Tensor:
    """A density on the grid from points (N,), each widened to a Gaussian."""
    z = (GRID[:, None] - points[None]) / width
    return (-0.5 * z.square()).exp().mean(1) / (width * math.sqrt(2 * math.pi))


def look(trainer: Trainer) -> Panel:
    with torch.no_grad():
        made = trainer.model.sample(torch.arange(NUMBER)).squeeze(1)  # type: ignore[operator]
        odds = trainer.model.discriminate(GRID[:, None]).sigmoid()  # type: ignore[operator]
        fooled = float(trainer.model.discriminate(made[:, None]).sigmoid().mean())  # type: ignore[operator]
    return Panel(trainer.step, odds, smooth_density(made), float(made.mean()), float(made.std()), fooled)


def follow(settings: Settings) -> list[Panel]:
    """Panels at the start and every tenth of the way."""
    key = random.keys(random.seed_of(settings.seed, "panels"), torch.arange(NUMBER))
    points = settings.mean + settings.deviation * random.normal(key, 1)
    torch.manual_seed(settings.seed)
    model = GANConfig(features=1, latent=1, generator=(32, 32), discriminator=(32, 32), output="linear").build()
    objective = AdversarialConfig(input="point", discriminator_steps=settings.discriminator_steps).build()
    run = Train(steps=settings.steps, batch=256, seed=settings.seed, device="cpu", precision="fp32")
    plan = execution.choose(run, model, objective)
    panels: list[Panel] = []
    speeds = {"discriminator": 2e-3, "generator": 5e-4}  # the discriminator must keep up with what the generator does
    fading = Schedule(kind="linear", min_lr_ratio=0.05)
    rates: dict[str, OptimConfig] = {name: Adam(lr=lr, betas=(0.5, 0.999), schedule=fading) for name, lr in speeds.items()}
    watch = Watch(lambda trainer: panels.append(look(trainer)), max(1, settings.steps // 10))
    Trainer(model, objective, DataLoader(TensorDataset({"point": points}), settings.seed, plan.device), run, rates, plan, [watch]).fit()
    return panels


def study(settings: Settings) -> Finding:
    """The four panels a to d, and how generated mean, deviation and D go on."""
    panels = follow(settings)
    last = len(panels) - 1
    data = (-0.5 * ((GRID - settings.mean) / settings.deviation).square()).exp() / (settings.deviation * math.sqrt(2 * math.pi))
    figure = ""
    for letter, panel in zip("abcd", (panels[i] for i in sorted({0, last // 5, last // 2, last})), strict=False):
        curves = [("data", data, "c0"), ("generated", panel.density, "c1"), ("D", panel.odds, "c2")]
        drawn = [Curve(name, list(zip(GRID.tolist(), values.tolist(), strict=True)), style) for name, values, style in curves]
        figure += chart(f"({letter}) step {panel.step}", drawn, tall=True, across="x")
    figure += comparison(settings)
    rows = tuple((str(p.step), f"{p.mean:.3f}", f"{p.deviation:.3f}", f"{p.fooled:.3f}") for p in panels)
    end = panels[-1]
    claim = f"Data N({settings.mean:g}, {settings.deviation:g}²). At the end the generated mean is {end.mean:.2f},"
    claim += f" the deviation {end.deviation:.2f},"
    claim += f" and D of what is generated is {end.fooled:.3f} on average, where 1/2 says that it cannot be told from data."
    return Finding("A GAN on the line", claim, ("step", "generated mean", "deviation", "D of generated"), rows, figure)


def comparison(settings: Settings) -> str:
    """How far the generated mean is from the data's, for several k."""
    curves = []
    for number, turns in enumerate(settings.compare):
        panels = follow(replace(settings, discriminator_steps=turns))
        curves.append(Curve(f"k = {turns}", [(p.step, abs(p.mean - settings.mean)) for p in panels], f"c{number}"))
    return chart("distance of the generated mean from the data's, by step of the generator", curves, tall=True) if curves else ""
