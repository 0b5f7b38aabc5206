"""Boltzmann machine learning (Ackley, Hinton & Sejnowski, 1985): what units do together on data, less what they do freely.

The likelihood's gradient by a coupling w of two units is E[s s'] with the data clamped, less E[s s'] of the model. Clamped, hidden
units are drawn from p(h | v) of each example: without that phase a machine with hidden units would follow another gradient. The
model's part comes from persistent chains over all units (Neal, 1992; Tieleman, 2008), which are moved after every update. The loss
is the difference of the two mean energies; descending it is ascending the likelihood, and its value says nothing.

Batch: image (B, ...), binary, X pixels each. Shapes: H hidden units, N = X + H.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from weft.core import random
from weft.core.errors import ConfigError
from weft.data.base import Batch
from weft.models.base import Inpaints
from weft.objectives.base import Objective, ObjectiveConfig, Terms, count


class BoltzmannMachine(Inpaints, Protocol):
    """Has an energy over all units, and Gibbs chains with and without clamped data."""

    def energy(self, s: Tensor) -> Tensor: ...
    def clamped(self, v: Tensor, key: Tensor, sweeps: int) -> Tensor: ...
    def gibbs(self, s: Tensor, key: Tensor, sweeps: int) -> Tensor: ...
    def pseudo_log_likelihood(self, v: Tensor) -> Tensor: ...


@dataclass(frozen=True, kw_only=True)
class BoltzmannLearningConfig(ObjectiveConfig):
    clamped_sweeps: int = 5
    """Gibbs sweeps over the hidden units of every example; none are needed where there are no hidden units."""
    sweeps: int = 1
    """Gibbs sweeps of the free chains per update."""
    particles: int = 64
    """Free chains."""
    features: int = 0
    """Number X of visible units; 0 takes it from the data."""
    hidden: int = 0
    """Number H of hidden units, that of the model."""

    def build(self) -> BoltzmannLearning:
        return BoltzmannLearning(self)


class BoltzmannLearning(Objective):
    autocast = False
    particles: Tensor
    origin: Tensor
    clock: Tensor

    def __init__(self, config: BoltzmannLearningConfig):
        super().__init__()
        self.config = config
        for name in ("clamped_sweeps", "sweeps", "particles", "features"):
            if getattr(config, name) < 1:
                raise ConfigError(f"--objective.{name} must be at least 1, not {getattr(config, name)}")
        if config.hidden < 0:
            raise ConfigError(f"--objective.hidden must be at least 0, not {config.hidden}")
        self.register_buffer("origin", torch.randint(-(1 << 62), 1 << 62, (config.particles,)))
        self.register_buffer("clock", torch.zeros((), dtype=torch.int64))
        self.register_buffer("particles", (random.uniform(self.origin, config.features + config.hidden) < 0.5).float())

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        size = count(len(batch["image"]), like=batch["image"])
        return {"data": size, "chain": count(self.config.particles, like=size)}

    def forward(self, model: BoltzmannMachine, batch: Batch, turn: str) -> Terms:
        if model.config.hidden != self.config.hidden:
            raise ConfigError(f"--objective.hidden is {self.config.hidden}, but the model has {model.config.hidden} hidden units")
        data = model.clamped(batch["image"].flatten(1), random.fold(batch["key"], "clamped"), self.config.clamped_sweeps)
        return Terms({"data": model.energy(data).sum(), "chain": -model.energy(self.particles).sum()})

    def after_update(self, model: BoltzmannMachine, turn: str) -> None:
        """Move the free chains under the new weights, with noise that is a function of how often they were moved."""
        self.clock += 1
        self.particles.copy_(model.gibbs(self.particles, random.fold(self.origin + self.clock, "chain"), self.config.sweeps))

    def measure(self, model: BoltzmannMachine, batch: Batch) -> dict[str, Tensor]:
        """Share of wrong pixels where the second half of each image is filled in from the first."""
        x = batch["image"].flatten(1)
        known = (torch.arange(x.size(1), device=x.device) < x.size(1) // 2).expand_as(x)
        found = model.inpaint(x, known, random.fold(batch["key"], "complete")) >= 0.5
        wrong = (found != (x > 0.5)).float()[:, x.size(1) // 2 :].mean(1)
        sums = {"completion_error": wrong.sum()}
        return sums if self.config.hidden else {**sums, "pseudo_log_likelihood": model.pseudo_log_likelihood(x).sum()}
