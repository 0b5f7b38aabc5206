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

from weft import random
from weft.layers import init
from weft.models.base import ModelConfig, check_sizes


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

    def __init__(self, config: RBMConfig):
        super().__init__()
        self.config = config
        check_sizes(config, features=1, hidden=1)
        self.weight = nn.Parameter(torch.empty(config.features, config.hidden))
        self.visible_bias = nn.Parameter(torch.zeros(config.features))
        self.hidden_bias = nn.Parameter(torch.zeros(config.hidden))
        init.normal(self.weight, 0.01)

    def energy(self, v: Tensor, h: Tensor) -> Tensor:
        """v (B, X), h (B, H) -> E(v, h) (B,)."""
        return -(v @ self.visible_bias) - h @ self.hidden_bias - ((v @ self.weight) * h).sum(-1)

    def free_energy(self, v: Tensor) -> Tensor:
        """v (B, X) -> F(v) (B,), where exp(-F(v)) is the sum of exp(-E(v, h)) over every h."""
        return -(v @ self.visible_bias) - F.softplus(self._hidden_logits(v)).sum(-1)

    def hidden_given_visible(self, v: Tensor) -> Tensor:
        """v (B, X) -> p(h = 1 | v) (B, H)."""
        return self._hidden_logits(v).sigmoid()

    def visible_given_hidden(self, h: Tensor) -> Tensor:
        """h (B, H) -> p(v = 1 | h) (B, X)."""
        return (self.visible_bias + h @ self.weight.mT).sigmoid()

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

    def reconstruct(self, v: Tensor) -> Tensor:
        """v (B, X) -> p(v = 1 | p(h | v)) (B, X), one sweep of means."""
        return self.visible_given_hidden(self.hidden_given_visible(v))

    def pseudo_log_likelihood(self, v: Tensor) -> Tensor:
        """v (B, X) -> sum over i of log p(v_i | all other v) (B,) (Besag, 1975), exact and without the normaliser."""
        change = 1 - 2 * v  # what flipping each unit adds to it
        logits = self._hidden_logits(v)
        flipped = logits.unsqueeze(1) + change.unsqueeze(-1) * self.weight  # (B, X, H)
        gain = change * self.visible_bias + (F.softplus(flipped) - F.softplus(logits).unsqueeze(1)).sum(-1)
        return F.logsigmoid(-gain).sum(-1)  # gain is F(v) - F(v with unit i flipped)

    def forward(self, v: Tensor) -> Tensor:
        """v (B, X) -> F(v) (B,)."""
        return self.free_energy(v)

    def _hidden_logits(self, v: Tensor) -> Tensor:
        return self.hidden_bias + v @ self.weight


TINY = RBMConfig(hidden=16)
"""Small enough for a test."""
PRESETS = {"tiny": TINY, "digits": RBMConfig(hidden=128), "mnist": RBMConfig(features=784, hidden=500)}
