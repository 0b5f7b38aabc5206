"""Boltzmann machine (Ackley, Hinton & Sejnowski, 1985, A learning algorithm for Boltzmann machines).

Units s of 0 and 1, the first X of them visible and the other H hidden, with p(s) = exp(-E(s)) / Z and E(s) = -s b - s W s / 2, W
symmetric with a diagonal of zeros: every pair is coupled, which the restricted machine forbids inside a side. Hidden units let the
visible ones depend on each other in more than pairs. p(s_i = 1 | the rest) = σ(b_i + (W s)_i).

Shapes: B batch, X visible units, H hidden units, N = X + H.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.core import random
from weft.core.errors import CapabilityError
from weft.models.base import ModelConfig, check_sizes
from weft.models.energy import energy
from weft.nn import init
from weft.sampling import denoising
from weft.sampling.gibbs import Chance, gibbs


@dataclass(frozen=True, kw_only=True)
class BoltzmannConfig(ModelConfig):
    features: int = 0
    """Number X of visible units; 0 takes it from the data."""
    image: tuple[int, ...] = ()
    """Shape of a sample, (channels, height, width); () takes it from the data, or leaves samples flat."""
    hidden: int = 0
    """Number H of hidden units; 0 for a machine that is fully visible."""

    def build(self) -> Boltzmann:
        return Boltzmann(self)


class Boltzmann(nn.Module):
    """A distribution over binary vectors in which every pair of units is coupled."""

    values = (0.0, 1.0)

    def __init__(self, config: BoltzmannConfig):
        super().__init__()
        self.config = config
        check_sizes(config, features=1, hidden=0)
        units = config.features + config.hidden
        self.hidden_blocks = tuple(slice(i, i + 1) for i in range(config.features, units))
        self.blocks = self.hidden_blocks + tuple(slice(i, i + 1) for i in range(config.features))
        self.weight = nn.Parameter(torch.empty(units, units))
        self.bias = nn.Parameter(torch.zeros(units))
        init.normal(self.weight, 0.01)

    def couplings(self) -> Tensor:
        """W (N, N)."""
        return energy.couplings(self.weight)

    def energy(self, s: Tensor) -> Tensor:
        """s (B, N) -> E(s) (B,)."""
        return -(s @ self.bias) - 0.5 * ((s @ self.couplings()) * s).sum(-1)

    def free_energy(self, v: Tensor) -> Tensor:
        """v (B, X) -> F(v) (B,), where exp(-F(v)) is the sum of exp(-E(v, h)) over every h, of which there must be few."""
        h = energy.every_state(self.config.hidden, like=v)  # (2^H, H)
        both = torch.cat([v.repeat_interleave(len(h), 0), h.repeat(len(v), 1)], dim=1)
        return -(-self.energy(both)).view(len(v), len(h)).logsumexp(1)

    def log_partition(self) -> Tensor:
        """log Z, summed over every state, for few units."""
        return energy.log_partition(self.energy, self.config.features + self.config.hidden, like=self.weight)

    def conditional(self, evidence: Tensor | None = None) -> Chance:
        """p(s_i = 1 | the rest), for weft.sampling."""
        weight, bias, visible = self.couplings(), self.bias, self.config.features

        def chance(state: Tensor, block: slice) -> Tensor:
            logits = state @ weight[:, block] + bias[block]
            if evidence is not None and block.start < visible:
                logits = logits + evidence[:, block]
            return logits.sigmoid()

        return chance

    def clamped(self, v: Tensor, key: Tensor, sweeps: int) -> Tensor:
        """v (B, X) with hidden units drawn from about p(h | v) by Gibbs sweeps over them alone -> s (B, N)."""
        if not self.config.hidden:
            return v
        h = (random.uniform(random.fold(key, "start"), self.config.hidden) < 0.5).to(v.dtype)
        return gibbs(self, torch.cat([v, h], dim=1), random.fold(key, "sweeps"), sweeps, blocks=self.hidden_blocks)

    def gibbs(self, s: Tensor, key: Tensor, sweeps: int) -> Tensor:
        """Sweep over all units of s (B, N) with the noise of key (B,) -> the last s (B, N)."""
        return gibbs(self, s, key, sweeps)

    def pseudo_log_likelihood(self, v: Tensor) -> Tensor:
        """v (B, X) -> sum over i of log p(v_i | all other v) (B,) (Besag, 1975), for a machine without hidden units."""
        if self.config.hidden:
            raise CapabilityError("the pseudo-likelihood of a Boltzmann machine with hidden units would sum over all their states")
        return F.logsigmoid((2 * v - 1) * (v @ self.couplings() + self.bias)).sum(-1)

    def sample(self, key: Tensor, sweeps: int = 500) -> Tensor:
        """key (B,) -> v (B, *image), from noise by Gibbs sweeps."""
        noise = random.uniform(random.fold(key, "start"), len(self.blocks))
        s = self.gibbs((noise < 0.5).to(self.weight.dtype), random.fold(key, "sweeps"), sweeps)
        return s[:, : self.config.features].reshape(-1, *(self.config.image or (self.config.features,)))

    def inpaint(self, x: Tensor, known: Tensor, key: Tensor | None = None, sweeps: int = 50) -> Tensor:
        """x (B, ...), given where known (B, ...) is true -> the chance that each other pixel is 1, the known ones as they are."""
        return denoising.inpaint(self, x.flatten(1), known.flatten(1), key, sweeps).view_as(x)

    def denoise(self, x: Tensor, flipped: float, key: Tensor | None = None, sweeps: int = 50) -> Tensor:
        """x (B, ...), of which a share was turned over by chance -> the chance (B, ...) that each pixel was 1."""
        return denoising.denoise(self, x.flatten(1), flipped, key, sweeps).view_as(x)

    def forward(self, s: Tensor) -> Tensor:
        """s (B, N) -> E(s) (B,)."""
        return self.energy(s)


TINY = BoltzmannConfig(hidden=4)
"""Small enough for a test."""
PRESETS = {"tiny": TINY, "digits": BoltzmannConfig(hidden=64)}
