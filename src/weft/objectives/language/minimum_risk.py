"""Minimum-risk training: the expected risk of answers drawn from the model is made small (Shen et al., 2016, arXiv:1512.02433).

The distribution is renormalised over the K answers that were drawn, the true one beside them, each counted once:
Q(y) = p(y)^α / Σ p(y')^α, and the loss is Σ Q(y) (1 - r(y)). A small α keeps Q from being all on one answer.
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
from weft.objectives.language.seq2seq import truth
from weft.objectives.language.sequence_reward import SequenceReward, SequenceRewardConfig


@dataclass(frozen=True, kw_only=True)
class MinimumRiskConfig(SequenceRewardConfig):
    alpha: float = 0.005
    """Sharpness α of the distribution over the answers; 1 is the model's own."""
    include_reference: bool = True
    """Count the true target among the answers."""

    def build(self) -> MinimumRisk:
        return MinimumRisk(self)


class MinimumRisk(SequenceReward):
    def __init__(self, config: MinimumRiskConfig):
        super().__init__(config)
        self.alpha, self.include_reference = config.alpha, config.include_reference
        if not 0.0 < config.alpha < math.inf:
            raise ConfigError(f"--objective.alpha must be above 0, not {config.alpha}")
        if config.samples + config.include_reference < 2:
            raise ConfigError("--objective.samples must be at least 2 where the true target is left out: one answer has nothing beside it")

    def risk(self, model: Any, batch: Batch, answers: Tensor, rewards: Tensor) -> Tensor:
        """The expected risk under Q (B,)."""
        if self.include_reference:
            reference = truth(batch)[:, None]
            size = max(reference.size(-1), answers.size(-1))
            both = [F.pad(each, (0, size - each.size(-1)), value=IGNORE) for each in (answers, reference)]
            answers, rewards = torch.cat(both, 1), torch.cat([rewards, self.rewards(reference, batch)], 1)
        scores = self.alpha * self.log_probs(model, batch, answers)
        shares = scores.masked_fill(repeated(answers), -math.inf).softmax(1)
        return (shares * (1 - rewards)).sum(1)


def repeated(answers: Tensor) -> Tensor:
    """Answers (B, K, N) -> which of them are the same as one before (B, K)."""
    same = (answers[:, :, None] == answers[:, None]).all(-1)
    return same.tril(-1).any(2)
