"""Planar flow (Rezende & Mohamed, 2015, arXiv:1505.05770): a standard normal pushed along planes, layer by layer.

It has a density for what it draws and for nothing else, as its layers have no formula for their inverse. So it is fitted to a
known density by the reverse KL divergence, as a posterior is in variational inference.

Shapes: B batch, X numbers of an example.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from weft.core import random
from weft.models.base import ModelConfig, check_sizes
from weft.nn.bijections import Planar, normal_log_prob


@dataclass(frozen=True, kw_only=True)
class PlanarFlowConfig(ModelConfig):
    features: int = 0
    """Size X of one example; 0 takes it from the data."""
    layers: int = 32
    """Number of planar layers."""

    def build(self) -> PlanarFlow:
        return PlanarFlow(self)


class PlanarFlow(nn.Module):
    """One pass to a sample and its density; the density of anything else is not known."""

    def __init__(self, config: PlanarFlowConfig):
        super().__init__()
        check_sizes(config, features=1, layers=1)
        self.config = config
        self.layers = nn.ModuleList(Planar(config.features) for _ in range(config.layers))

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """z (B, X) -> x (B, X) and log |det dx/dz| (B,)."""
        total = torch.zeros_like(z[:, 0])
        for layer in self.layers:
            z, change = layer(z)
            total = total + change
        return z, total

    def draw(self, key: Tensor) -> tuple[Tensor, Tensor]:
        """key (B,) -> one example per key (B, X) and its log-density log p(z) - log |det dx/dz| (B,)."""
        z = random.normal(random.fold(key, "latent"), self.config.features).to(next(self.parameters()).dtype)
        x, change = self(z)
        return x, normal_log_prob(z) - change

    @torch.no_grad()
    def sample(self, key: Tensor) -> Tensor:
        """key (B,) -> one example per key (B, X)."""
        return self.draw(key)[0]


TINY = PlanarFlowConfig(layers=4)
"""Small enough for a test."""
PRESETS = {"tiny": TINY}
