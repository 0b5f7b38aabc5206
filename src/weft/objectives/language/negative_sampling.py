"""Skip-gram with negative sampling (Mikolov et al., 2013, arXiv:1310.4546).

A pair (w, c) of the text is told from k pairs (w, n), n drawn from the noise P(n) ~ frequency^0.75:
loss = -log sigma(w c) - sum over n of log sigma(-w n). With noise P(n) its optimum is the score log p(w, c) / (p(w) P(c)) - log k
(Levy & Goldberg, 2014). Without negatives every score grows for ever and the vectors say nothing.

Batch: centre (B,), context (B, C) with IGNORE where there is no pair.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from weft.core import random
from weft.core.errors import ConfigError
from weft.data.base import IGNORE, Batch
from weft.objectives.base import Objective, ObjectiveConfig, Terms, count

GRAIN = 1 << 48
"""Parts into which the noise distribution is cut: drawing with integers is exact where float32 would round rare words."""


@dataclass(frozen=True, kw_only=True)
class NegativeSamplingConfig(ObjectiveConfig):
    unit = "nats per pair"

    negatives: int = 5
    """Noise words k per pair."""
    power: float = 0.75
    """Exponent of the frequencies in the noise distribution; 1 is the words' own distribution."""
    frequencies: tuple[int, ...] = ()
    """Occurrences of each word; () takes them from the data."""

    def build(self) -> NegativeSampling:
        return NegativeSampling(self)


class NegativeSampling(Objective):
    autocast = False
    """Gathering vectors takes the time, not multiplying them."""
    noise: Tensor

    def __init__(self, config: NegativeSamplingConfig):
        super().__init__()
        self.config = config
        if not sum(config.frequencies):
            raise ConfigError("objective.frequencies is empty: negative sampling needs data that counts its words, such as cooccurrence")
        if config.negatives < 0 or not 0.0 <= config.power < math.inf:
            raise ConfigError(f"--objective.negatives and --objective.power must not be negative: {config.negatives}, {config.power}")
        frequency = torch.tensor(config.frequencies, dtype=torch.float64)
        share = torch.where(frequency > 0, frequency**config.power, 0.0).cumsum(0)
        self.register_buffer("noise", (share / share[-1] * GRAIN).round().long())

    def draw(self, key: Tensor, *shape: int) -> Tensor:
        """key (B,) -> noise words (B, *shape)."""
        return torch.searchsorted(self.noise, random.integers(random.fold(key, "negatives"), GRAIN, *shape), right=True)

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        return {"loss": count((batch["context"] != IGNORE).sum(), like=batch["context"])}

    def forward(self, model: Any, batch: Batch, turn: str) -> Terms:
        context = batch["context"]
        real = context != IGNORE
        scores = model(batch["centre"], context.clamp(min=0))  # (B, C)
        negatives = self.draw(batch["key"], context.size(1), self.config.negatives)  # (B, C, k)
        against = model(batch["centre"], negatives.flatten(1)).view(negatives.shape)
        losses = F.softplus(-scores) + F.softplus(against).sum(-1)
        first = (scores.unsqueeze(-1) > against).all(-1) & real  # the true word before all of its negatives
        return Terms({"loss": losses.masked_fill(~real, 0.0).sum()}, {"ranked_first": first.sum()})
