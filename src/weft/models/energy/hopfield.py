"""Hopfield network (Hopfield, 1982, Neural networks and physical systems with emergent collective computational abilities).

Units x of -1 and 1 with E(x) = -x W x / 2, W symmetric with a diagonal of zeros. Set one unit after another to the sign of its
field (W x)_i and the energy never rises, so the state runs into a minimum near where it started: a memory that is asked by a
part of what it holds. A pattern and its negation have the same energy; if one is a minimum, so is the other.

At temperature 1 the same energy is a Boltzmann machine over -1 and 1: p(x_i = 1 | the rest) = σ(2 (W x)_i).

Shapes: B batch, X units.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.core import random
from weft.models.base import ModelConfig, check_sizes
from weft.models.energy import energy
from weft.sampling import denoising
from weft.sampling.gibbs import Chance


@dataclass(frozen=True, kw_only=True)
class HopfieldConfig(ModelConfig):
    features: int = 0
    """Number X of units; 0 takes it from the data."""
    image: tuple[int, ...] = ()
    """Shape of a sample, (channels, height, width); () takes it from the data, or leaves samples flat."""

    def build(self) -> Hopfield:
        return Hopfield(self)


class Hopfield(nn.Module):
    """Starts without couplings: it remembers nothing, and keeps every state as it is."""

    values = (-1.0, 1.0)

    def __init__(self, config: HopfieldConfig):
        super().__init__()
        self.config = config
        check_sizes(config, features=1)
        self.blocks = tuple(slice(i, i + 1) for i in range(config.features))
        self.weight = nn.Parameter(torch.zeros(config.features, config.features))

    def couplings(self) -> Tensor:
        """W (X, X)."""
        return energy.couplings(self.weight)

    @torch.no_grad()
    def store(self, patterns: Tensor) -> None:
        """Hebb's rule for patterns (P, X) of -1 and 1: W = Σ x xᵀ / P without its diagonal, in place of what was known before."""
        self.weight.copy_(patterns.mT @ patterns / max(1, len(patterns)))

    def energy(self, x: Tensor) -> Tensor:
        """x (B, X) of -1 and 1 -> E(x) (B,)."""
        return -0.5 * ((x @ self.couplings()) * x).sum(-1)

    def log_partition(self) -> Tensor:
        """log Z, summed over every state, for few units."""
        return energy.log_partition(self.energy, self.config.features, self.values, self.weight)

    def conditional(self, evidence: Tensor | None = None) -> Chance:
        """p(x_i = 1 | the rest), for weft.sampling."""
        weight = self.couplings()

        def chance(state: Tensor, block: slice) -> Tensor:
            logits = 2 * (state @ weight[:, block])
            return (logits if evidence is None else logits + evidence[:, block]).sigmoid()

        return chance

    def pseudo_log_likelihood(self, x: Tensor) -> Tensor:
        """x (B, X) -> sum over i of log p(x_i | all other x) (B,) (Besag, 1975)."""
        return F.logsigmoid(2 * x * (x @ self.couplings())).sum(-1)

    @torch.no_grad()
    def recall(self, x: Tensor, sweeps: int = 20, known: Tensor | None = None) -> Tensor:
        """Descend from x (B, X), unit by unit in a random order, until nothing changes -> a minimum near it (B, X).

        Units where known (B, X) is true keep their values. A unit without a field keeps its value too.
        """
        weight, x, units = self.couplings(), x.clone(), len(self.blocks)
        for number in range(sweeps):
            before = x.clone()
            for i in random.permute(np.arange(units), units, random.seed_of("recall", number)).tolist():
                field = x @ weight[:, i]
                new = torch.where(field == 0, x[:, i], field.sign())
                x[:, i] = new if known is None else torch.where(known[:, i], x[:, i], new)
            if torch.equal(before, x):
                break
        return x

    def inpaint(self, x: Tensor, known: Tensor, key: Tensor | None = None, sweeps: int = 20) -> Tensor:
        """x (B, ...) of 0 and 1, given where known (B, ...) is true -> what the network recalls (B, ...)."""
        key = denoising.numbered(x) if key is None else key
        noise = (random.uniform(random.fold(key, "start"), self.config.features) < 0.5).to(x.dtype)
        start = torch.where(known.flatten(1), x.flatten(1), noise)
        return ((self.recall(2 * start - 1, sweeps, known.flatten(1)) + 1) / 2).view_as(x)

    def denoise(self, x: Tensor, flipped: float, key: Tensor | None = None, sweeps: int = 20) -> Tensor:
        """x (B, ...) of 0 and 1 -> the minimum that it runs into (B, ...), whatever share was turned over."""
        return ((self.recall(2 * x.flatten(1) - 1, sweeps) + 1) / 2).view_as(x)

    def sample(self, key: Tensor) -> Tensor:
        """key (B,) -> minima (B, *image) of 0 and 1 found from noise: patterns, their negations and mixtures of them."""
        start = 2 * (random.uniform(random.fold(key, "start"), self.config.features) < 0.5).to(self.weight.dtype) - 1
        return ((self.recall(start) + 1) / 2).view(-1, *(self.config.image or (self.config.features,)))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, X) of -1 and 1 -> E(x) (B,)."""
        return self.energy(x)


TINY = HopfieldConfig()
"""Small enough for a test."""
PRESETS = {"tiny": TINY}
