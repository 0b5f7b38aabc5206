"""Normalising flows (Rezende & Mohamed, 2015): an invertible map between data and a standard normal, and the density it gives.

Shapes: B batch, X numbers of an example.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from weft.core import random
from weft.core.errors import ConfigError
from weft.models.base import as_examples
from weft.nn.bijections import Bijection, Chain, Logit, normal_log_prob


class Flow(nn.Module):
    """What every flow can do once its bijection from x to z (B, X) is given."""

    def __init__(self, bijection: Bijection, inside: tuple[int, ...], outside: tuple[int, ...]):
        """`inside` is the shape of an example as the bijection takes it, `outside` as samples have it."""
        super().__init__()
        self.bijection, self.inside, self.outside = bijection, inside, outside

    def log_prob(self, x: Tensor) -> Tensor:
        """x (B, ...) -> log p(x) = log p(z) + log |det dz/dx| (B,)."""
        z, change = self._forward(x)
        return normal_log_prob(z) + change

    def to_latent(self, x: Tensor) -> Tensor:
        """x (B, ...) -> z (B, X), a standard normal if x is from the model."""
        return self._forward(x)[0]

    def to_data(self, z: Tensor) -> Tensor:
        """z (B, X) -> x (B, *outside)."""
        z = as_examples(self, z, (math.prod(self.inside),))
        return self.bijection.inverse(z)[0].view(-1, *self.outside)

    def latents(self, key: Tensor) -> Tensor:
        """key (B,) -> one z ~ N(0, I) per key, (B, X)."""
        noise = random.normal(random.fold(key, "latent"), math.prod(self.inside))
        return noise.to(next(self.parameters()).dtype)

    def draw(self, key: Tensor) -> tuple[Tensor, Tensor]:
        """key (B,) -> one example per key and its log-density, found on the way: (B, *outside), (B,)."""
        z = self.latents(key)
        x, change = self.bijection.inverse(z)
        return x.view(-1, *self.outside), normal_log_prob(z) - change

    @torch.no_grad()
    def sample(self, key: Tensor) -> Tensor:
        """key (B,) -> one example per key, (B, *outside)."""
        return self.draw(key)[0]

    def _forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        z, change = self.bijection(as_examples(self, x, self.inside))
        return z, change

    def forward(self, x: Tensor) -> Tensor:
        """x (B, ...) -> log p(x) (B,)."""
        return self.log_prob(x)


def chain(layers: Sequence[Bijection], margin: float) -> Bijection:
    """The layers one after the other, behind a logit where the data are numbers in [0, 1]."""
    if not 0.0 <= margin < 0.5:
        raise ConfigError(f"--model.margin must be at least 0 and below 0.5, not {margin}")
    return Chain([Logit(margin), *layers] if margin else layers)
