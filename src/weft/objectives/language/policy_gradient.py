"""Policy gradient: answers are drawn from the model, and those with more than the usual reward are made likelier.

This is REINFORCE (Williams, 1992), on sequences as Ranzato et al. (2015, arXiv:1511.06732) have it.

With K answers y to a source, rewards r and a baseline b that does not depend on the answer it is taken from, the gradient of the mean of
-(r - b) log p(y) is without bias that of the expected risk 1 - r. A baseline makes its variance smaller: a number; the reward of the greedy
answer (self-critical training: Rennie et al., 2017, arXiv:1612.00563); or the mean reward of the other answers to the same source.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from weft.core.errors import ConfigError
from weft.data.base import Batch
from weft.objectives.language.sequence_reward import SequenceReward, SequenceRewardConfig


@dataclass(frozen=True, kw_only=True)
class PolicyGradientConfig(SequenceRewardConfig):
    baseline: Literal["constant", "greedy", "leave_one_out"] = "leave_one_out"
    """What is taken from a reward: a number, the reward of the greedy answer, or the mean of the other answers' rewards."""
    baseline_value: float = 0.0
    """The number, where the baseline is constant."""

    def build(self) -> PolicyGradient:
        return PolicyGradient(self)


class PolicyGradient(SequenceReward):
    def __init__(self, config: PolicyGradientConfig):
        super().__init__(config)
        self.baseline = config
        if config.baseline == "leave_one_out" and config.samples < 2:
            raise ConfigError(f"--objective.samples must be at least 2 for the baseline leave_one_out, not {config.samples}")
        if not math.isfinite(config.baseline_value):
            raise ConfigError(f"--objective.baseline_value must be a number, not {config.baseline_value}")

    def risk(self, model: Any, batch: Batch, answers: Tensor, rewards: Tensor) -> Tensor:
        """The mean risk of the answers; its gradient is that of the expected one."""
        advantage = rewards - self.baselines(model, batch, rewards)
        surrogate = -(advantage * self.log_probs(model, batch, answers)).mean(1)
        return (1 - rewards).mean(1) + surrogate - surrogate.detach()

    def baselines(self, model: Any, batch: Batch, rewards: Tensor) -> Tensor:
        """What is taken from each reward (B, K)."""
        if self.baseline.baseline == "greedy":
            return self.rewards(self.greedy(model, batch), batch)
        if self.baseline.baseline == "constant":
            return torch.full_like(rewards, self.baseline.baseline_value)
        return (rewards.sum(1, keepdim=True) - rewards) / (rewards.size(1) - 1)
