"""Maximum likelihood of any model that offers `log_prob`: the loss is -log p(x) of an example, in nats.

A density of continuous values would grow without bound on bytes, so these are first made continuous: with the byte v of L levels
and u ~ U[0, 1) from the example's key, y = (v + u) / L, and log p(v) >= E log p(y) - X log L by Jensen (Theis et al., 2016,
arXiv:1511.01844). Bits per dimension, nats / (X log 2), are then those of bytes, as papers report them.

Batch: image (B, ...) or another input of X numbers each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from weft.core import random
from weft.core.errors import ConfigError
from weft.data.base import Batch
from weft.models.base import Densities
from weft.objectives.base import Objective, ObjectiveConfig, Terms, count


@dataclass(frozen=True, kw_only=True)
class LikelihoodConfig(ObjectiveConfig):
    unit = "nats per example"

    input: str = "image"
    """Name of the input in a batch."""
    levels: int = 0
    """Levels L of inputs in [0, 1] that are made continuous by uniform noise (256 for bytes); 0 takes them as they are."""
    features: int = 0
    """Size X of one flattened example; 0 takes it from the data."""

    def build(self) -> Likelihood:
        return Likelihood(self)


class Likelihood(Objective):
    needs = Densities

    def __init__(self, config: LikelihoodConfig):
        super().__init__()
        if config.levels < 0 or config.levels == 1:
            raise ConfigError(f"--objective.levels must be 0, or at least 2, not {config.levels}")
        if config.features < 1:
            raise ConfigError(f"--objective.features must be at least 1, not {config.features}; leave it out to take it from the data")
        self.config = config

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        return {"loss": count(len(batch["key"]), like=batch["key"])}

    def forward(self, model: Densities, batch: Batch, turn: str) -> Terms:
        x, levels = batch[self.config.input], self.config.levels
        if levels:
            x = dequantise(x, batch["key"], levels)
        nats = -model.log_prob(x)  # (B,)
        if levels:
            nats = nats + self.config.features * math.log(levels)
        return Terms({"loss": nats.sum()})

    def summary(self, means: dict[str, Tensor]) -> dict[str, float]:
        numbers = super().summary(means)
        return {**numbers, "bits_per_dim": bits_per_dim(numbers["loss"], self.config.features)}


def dequantise(x: Tensor, key: Tensor, levels: int) -> Tensor:
    """x (B, ...) of `levels` equal steps in [0, 1] -> spread evenly over its share of [0, 1], with the noise of key (B,)."""
    noise = random.uniform(random.fold(key, "dequantise"), x[0].numel()).view_as(x)
    return ((x * (levels - 1)).round() + noise) / levels


def bits_per_dim(nats: float, features: int) -> float:
    """Nats of a whole example as bits of one of its numbers."""
    return nats / (features * math.log(2))
