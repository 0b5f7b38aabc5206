"""Restricted Boltzmann machine (Smolensky, 1986; Hinton, 2002, Training products of experts by minimizing contrastive divergence).

Binary visible units v and hidden units h with p(v, h) = exp(-E(v, h)) / Z and E(v, h) = -v b - h c - v W h. Units of one
side are independent given the other, so a Gibbs sweep is two half-steps, each on all units of a side at once.

Shapes: B batch, X visible units, H hidden units.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.core import random
from weft.models.base import ModelConfig, check_sizes
from weft.models.energy import energy
from weft.nn import init
from weft.sampling import denoising
from weft.sampling.gibbs import Chance

SOME = 64
"""Visible units that are flipped together where every one of them is flipped in turn: memory is bounded by this."""


@dataclass(frozen=True, kw_only=True)
class RBMConfig(ModelConfig):
    features: int = 0
    """Number X of visible units; 0 takes it from the data."""
    image: tuple[int, ...] = ()
    """Shape of a sample, (channels, height, width); () takes it from the data, or leaves samples flat."""
    hidden: int = 128
    """Number H of hidden units."""

    def build(self) -> RBM:
        return RBM(self)


class RBM(nn.Module):
    """A distribution over binary vectors, known up to its normaliser."""

    values = (0.0, 1.0)

    def __init__(self, config: RBMConfig):
        super().__init__()
        self.config = config
        check_sizes(config, features=1, hidden=1)
        self.blocks: tuple[slice, ...] = (slice(config.features, config.features + config.hidden), slice(0, config.features))
        self.weight = nn.Parameter(torch.empty(config.features, config.hidden))
        self.visible_bias = nn.Parameter(torch.zeros(config.features))
        self.hidden_bias = nn.Parameter(torch.zeros(config.hidden))
        init.normal(self.weight, 0.01)

    def energy(self, v: Tensor, h: Tensor) -> Tensor:
        """v (B, X), h (B, H) -> E(v, h) (B,)."""
        return -(v @ self.visible_bias) - h @ self.hidden_bias - ((v @ self.weight) * h).sum(-1)

    def free_energy(self, v: Tensor) -> Tensor:
        """v (B, X) -> F(v) (B,), where exp(-F(v)) is the sum of exp(-E(v, h)) over every h."""
        return -(v @ self.visible_bias) - F.softplus(self.hidden_logits(v)).sum(-1)

    def log_partition(self) -> Tensor:
        """log Z, summed over every state of the side with fewer units, of which there must be few."""
        if self.config.features < self.config.hidden:
            return energy.log_partition(self.free_energy, self.config.features, like=self.weight)

        def other(h: Tensor) -> Tensor:
            return -(h @ self.hidden_bias) - F.softplus(self.visible_logits(h)).sum(-1)

        return energy.log_partition(other, self.config.hidden, like=self.weight)

    def hidden_logits(self, v: Tensor) -> Tensor:
        """v (B, X) -> log-odds of p(h = 1 | v) (B, H)."""
        return self.hidden_bias + v @ self.weight

    def visible_logits(self, h: Tensor) -> Tensor:
        """h (B, H) -> log-odds of p(v = 1 | h) (B, X)."""
        return self.visible_bias + h @ self.weight.mT

    def hidden_given_visible(self, v: Tensor) -> Tensor:
        """v (B, X) -> p(h = 1 | v) (B, H)."""
        return self.hidden_logits(v).sigmoid()

    def visible_given_hidden(self, h: Tensor) -> Tensor:
        """h (B, H) -> p(v = 1 | h) (B, X)."""
        return self.visible_logits(h).sigmoid()

    def conditional(self, evidence: Tensor | None = None) -> Chance:
        """Of the two sides, for weft.sampling, where a state is visible and hidden units side by side (B, X + H)."""
        size, hidden = self.config.features, self.blocks[0]

        def chance(state: Tensor, block: slice) -> Tensor:
            if block == hidden:
                return self.hidden_given_visible(state[:, :size])
            logits = self.visible_logits(state[:, size:])
            return (logits if evidence is None else logits + evidence).sigmoid()

        return chance

    @torch.no_grad()
    def gibbs(self, v: Tensor, key: Tensor, steps: int) -> Tensor:
        """Sweep `steps` times from v (B, X) with the noise of key (B,) -> the last v (B, X)."""
        for step in range(steps):
            noise = random.uniform(random.fold(key, step), self.config.hidden + self.config.features)
            h = (noise[:, : self.config.hidden] < self.hidden_given_visible(v)).to(v.dtype)
            v = (noise[:, self.config.hidden :] < self.visible_given_hidden(h)).to(v.dtype)
        return v

    def sample(self, key: Tensor, steps: int = 1000) -> Tensor:
        """key (B,) -> v (B, *image), from noise by `steps` Gibbs sweeps."""
        noise = random.uniform(random.fold(key, "start"), self.config.features)
        v = self.gibbs((noise < 0.5).to(self.weight.dtype), random.fold(key, "sweeps"), steps)
        return v.view(-1, *(self.config.image or (self.config.features,)))

    def inpaint(self, x: Tensor, known: Tensor, key: Tensor | None = None, sweeps: int = 200) -> Tensor:
        """x (B, ...), given where known (B, ...) is true -> the chance that each other pixel is 1, the known ones as they are."""
        return denoising.inpaint(self, x.flatten(1), known.flatten(1), key, sweeps).view_as(x)

    def denoise(self, x: Tensor, flipped: float, key: Tensor | None = None, sweeps: int = 200) -> Tensor:
        """x (B, ...), of which a share was turned over by chance -> the chance (B, ...) that each pixel was 1."""
        return denoising.denoise(self, x.flatten(1), flipped, key, sweeps).view_as(x)

    def reconstruct(self, v: Tensor) -> Tensor:
        """v (B, X) -> p(v = 1 | p(h | v)) (B, X), one sweep of means."""
        return self.visible_given_hidden(self.hidden_given_visible(v))

    def pseudo_log_likelihood(self, v: Tensor) -> Tensor:
        """v (B, X) -> sum over i of log p(v_i | all other v) (B,) (Besag, 1975), exact and without the normaliser."""
        change = 1 - 2 * v  # what flipping each unit adds to it
        logits = self.hidden_logits(v)
        gains = []
        for own, weight in zip(torch.split(change, SOME, dim=1), torch.split(self.weight, SOME), strict=True):
            flipped = logits.unsqueeze(1) + own.unsqueeze(-1) * weight  # (B, SOME, H)
            gains.append((F.softplus(flipped) - F.softplus(logits).unsqueeze(1)).sum(-1))
        gain = change * self.visible_bias + torch.cat(gains, dim=1)  # F(v) - F(v with unit i flipped)
        return F.logsigmoid(-gain).sum(-1)

    def forward(self, v: Tensor) -> Tensor:
        """v (B, X) -> F(v) (B,)."""
        return self.free_energy(v)


TINY = RBMConfig(hidden=16)
"""Small enough for a test."""
PRESETS = {"tiny": TINY, "digits": RBMConfig(hidden=128), "mnist": RBMConfig(features=784, hidden=500)}
