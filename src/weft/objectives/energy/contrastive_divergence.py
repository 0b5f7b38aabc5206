"""Contrastive divergence (Hinton, 2002) and its persistent form (Tieleman, 2008).

The gradient of -log p(v) is that of F(data) minus the model's mean of F. The loss replaces the model by a short Gibbs chain
and holds the chain fixed, so that its gradient is contrastive divergence; its value says nothing. The mean free energy of
data is the term "data": when it falls in training but not in validation, the model overfits (Hinton, 2010).

Batch: image (B, ...), binary, X pixels each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from weft.core import random
from weft.core.errors import ConfigError
from weft.data.base import Batch
from weft.models.base import BipartiteEnergy
from weft.objectives.base import Objective, ObjectiveConfig, Terms, count


class Restricted(BipartiteEnergy, Protocol):
    """A restricted Boltzmann machine with a Gibbs chain over its visible units."""

    def gibbs(self, v: Tensor, key: Tensor, steps: int) -> Tensor: ...
    def reconstruct(self, v: Tensor) -> Tensor: ...
    def pseudo_log_likelihood(self, v: Tensor) -> Tensor: ...


@dataclass(frozen=True, kw_only=True)
class ContrastiveDivergenceConfig(ObjectiveConfig):
    sweeps: int = 1
    """Gibbs sweeps per update."""
    particles: int = 0
    """Chains that go on from update to update; 0 starts a new one at every example."""
    features: int = 0
    """Number X of visible units; 0 takes it from the data."""
    ais_chains: int = 100
    """Chains in each direction by which `weft evaluate` finds log Z (annealed importance sampling); 0 leaves it out."""
    ais_temperatures: int = 1000
    """Temperatures of these chains; the more, the nearer are the estimates of the two directions."""

    def build(self) -> ContrastiveDivergence:
        return ContrastiveDivergence(self)


class ContrastiveDivergence(Objective):
    autocast = False
    particles: Tensor
    origin: Tensor
    clock: Tensor

    def __init__(self, config: ContrastiveDivergenceConfig):
        super().__init__()
        self.config = config
        if config.sweeps < 1 or config.particles < 0:
            raise ConfigError(f"objective: at least 1 sweep and 0 particles are needed, not {config.sweeps} and {config.particles}")
        if config.ais_chains < 0 or config.ais_temperatures < 0:
            raise ConfigError(
                f"objective: ais_chains {config.ais_chains} and ais_temperatures {config.ais_temperatures} cannot be negative"
            )
        if config.particles:
            self.register_buffer("origin", torch.randint(-(1 << 62), 1 << 62, (config.particles,)))
            self.register_buffer("clock", torch.zeros((), dtype=torch.int64))
            self.register_buffer("particles", (random.uniform(self.origin, config.features) < 0.5).float())

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        size = count(len(batch["image"]), like=batch["image"])
        return {"data": size, "chain": count(self.config.particles, like=size) if self.config.particles else size}

    def forward(self, model: Restricted, batch: Batch, turn: str) -> Terms:
        data = batch["image"].flatten(1)  # (B, X)
        chain = self.particles if self.config.particles else model.gibbs(data, random.fold(batch["key"], "chain"), self.config.sweeps)
        with torch.no_grad():
            error = (data - model.reconstruct(data)).square().mean(-1).sum()
        return Terms({"data": model.free_energy(data).sum(), "chain": -model.free_energy(chain).sum()}, {"reconstruction_error": error})

    def after_update(self, model: Restricted, turn: str) -> None:
        """Move the persistent chain under the new weights, with noise that is a function of how often it was moved."""
        if self.config.particles:
            self.clock += 1
            self.particles.copy_(model.gibbs(self.particles, random.fold(self.origin + self.clock, "chain"), self.config.sweeps))

    def measure(self, model: Restricted, batch: Batch) -> dict[str, Tensor]:
        return {"pseudo_log_likelihood": model.pseudo_log_likelihood(batch["image"].flatten(1)).sum()}
