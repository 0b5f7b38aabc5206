"""Negative sampling: real pairs of words are told from pairs with words drawn at random (Mikolov et al., 2013, arXiv:1310.4546).

A pair (w, c) of the text is told from k pairs (w, n), n drawn from the noise P(n) ~ frequency^0.75:
loss = -log sigma(w c) - sum over n of log sigma(-w n). With noise P(n) its optimum is the score log p(w, c) / (p(w) P(c)) - log k
(Levy & Goldberg, 2014). Without negatives every score grows for ever and the vectors say nothing.

Batch: that of `word_prediction`.
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
from weft.data.base import IGNORE
from weft.kernels.c import word_vectors
from weft.objectives.base import Terms
from weft.objectives.language.word_prediction import WordPrediction, WordPredictionConfig

GRAIN = 1 << 48
"""Parts into which the noise distribution is cut: drawing with integers is exact where float32 would round rare words."""


@dataclass(frozen=True, kw_only=True)
class NoiseConfig(WordPredictionConfig):
    negatives: int = 5
    """Noise words k per pair."""
    power: float = 0.75
    """Exponent of the frequencies in the noise distribution; 1 is the words' own distribution."""


@dataclass(frozen=True, kw_only=True)
class NegativeSamplingConfig(NoiseConfig):
    def build(self) -> NegativeSampling:
        return NegativeSampling(self)


class WordsAgainstNoise(WordPrediction):
    """What draws noise words."""

    noise: Tensor

    def __init__(self, config: Any):
        super().__init__(config)
        if config.negatives < 0 or not 0.0 <= config.power < math.inf:
            raise ConfigError(f"--objective.negatives and --objective.power must not be negative: {config.negatives}, {config.power}")
        frequency = torch.tensor(config.frequencies, dtype=torch.float64)
        share = torch.where(frequency > 0, frequency**config.power, 0.0).cumsum(0)
        self.register_buffer("noise", (share / share[-1] * GRAIN).round().long())

    def draw(self, key: Tensor, *shape: int) -> Tensor:
        """key (B,) -> noise words (B, *shape)."""
        return torch.searchsorted(self.noise, random.integers(random.fold(key, "negatives"), GRAIN, *shape), right=True)


class NegativeSampling(WordsAgainstNoise):
    def losses(self, model: Any, hidden: Tensor, targets: Tensor, real: Tensor, key: Tensor) -> Terms:
        scores = model.scores(hidden, targets)  # (B, T)
        negatives = self.draw(key, targets.size(1), self.config.negatives)  # (B, T, k)
        against = model.scores(hidden, negatives.flatten(1)).view(negatives.shape)
        losses = F.softplus(-scores) + F.softplus(against).sum(-1)
        first = (scores.unsqueeze(-1) > against).all(-1) & real  # the true word before all of its negatives
        return Terms({"loss": losses.masked_fill(~real, 0.0).sum()}, {"ranked_first": first.sum()})

    def outputs(self, targets: Tensor, key: Tensor) -> Tensor:
        codes = torch.cat(
            [(2 * targets + 1).unsqueeze(-1), 2 * self.draw(key, targets.size(1), self.config.negatives)], -1
        )  # (B, T, 1 + k)
        return codes.masked_fill((targets == IGNORE).unsqueeze(-1), -1).flatten(1)

    def c_settings(self) -> word_vectors.Settings:
        config = self.config
        return word_vectors.Settings(
            config.architecture, config.window, config.centres, self.keep, self.noise, config.negatives, limit=config.row_limit
        )
