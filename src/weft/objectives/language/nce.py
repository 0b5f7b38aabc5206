"""Noise-contrastive estimation of a word's probability, without a sum over the vocabulary (Gutmann & Hyvärinen, 2010; Mnih & Teh, 2012).

A word is told from k noise words by p(real | w, h) = u(w, h) / (u(w, h) + k q(w)), u = exp(score), as if u summed to one (Z = 1).
As k grows the gradient becomes that of the likelihood, and what is learned has a Z near 1: `log_z`, with its spread `log_z_square`, is
what validation measures. Negative sampling instead takes k q(w) for 1, and learns no probabilities.

Batch: that of `word_prediction`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from weft.core.errors import ConfigError
from weft.data.base import IGNORE, Batch
from weft.objectives.base import Terms
from weft.objectives.language.negative_sampling import GRAIN, NoiseConfig, WordsAgainstNoise
from weft.objectives.language.word_prediction import log_prior


@dataclass(frozen=True, kw_only=True)
class NCEConfig(NoiseConfig):
    negatives: int = 25
    """Noise words k per pair."""
    power: float = 1.0
    """Exponent of the frequencies in the noise distribution; 1 is the words' own distribution."""
    prior: bool = True
    """Predict by q(w) exp(score), q a word's share of the text: Z is 1 where all scores are 0, and need not be learned."""

    def build(self) -> NCE:
        return NCE(self)


class NCE(WordsAgainstNoise):
    log_noise: Tensor
    log_prior: Tensor

    def __init__(self, config: NCEConfig):
        super().__init__(config)
        if not config.negatives:
            raise ConfigError("--objective.negatives must be at least 1: without noise there is nothing to tell words from")
        self.register_buffer("log_prior", log_prior(config.frequencies, config.prior), persistent=False)
        shares = self.noise.diff(prepend=self.noise.new_zeros(1)).double() / GRAIN
        self.register_buffer("log_noise", (config.negatives * shares).clamp(min=1 / GRAIN).log().float(), persistent=False)  # log k q

    def losses(self, model: Any, hidden: Tensor, targets: Tensor, real: Tensor, key: Tensor) -> Terms:
        scores = model.scores(hidden, targets) + self.log_prior[targets] - self.log_noise[targets]  # (B, T)
        negatives = self.draw(key, targets.size(1), self.config.negatives)  # (B, T, k)
        against = model.scores(hidden, negatives.flatten(1)).view(negatives.shape) + (self.log_prior - self.log_noise)[negatives]
        losses = F.softplus(-scores) + F.softplus(against).sum(-1)
        return Terms({"loss": losses.masked_fill(~real, 0.0).sum()})

    @torch.no_grad()
    def measure(self, model: Any, batch: Batch) -> dict[str, Tensor]:
        """The loss of the model's own softmax, log Z and its square, summed over predictions."""
        examples = self.examples(batch)
        targets = examples["targets"]
        logits = model.logits(model.mean(examples["inputs"])) + self.log_prior
        log_z, times = logits.logsumexp(-1), (targets != IGNORE).sum(1)  # (B,)
        scores = logits.gather(1, targets.clamp(min=0)).masked_fill(targets == IGNORE, 0.0).sum(1)
        return {"log_z": (log_z * times).sum(), "log_z_square": (log_z.square() * times).sum(), "nll": (log_z * times - scores).sum()}

    def summary(self, means: dict[str, Tensor]) -> dict[str, float]:
        numbers = super().summary(means)
        return numbers | ({"perplexity": math.exp(min(numbers["nll"], 700.0))} if "nll" in numbers else {})
