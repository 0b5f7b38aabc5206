"""Negative evidence lower bound (Kingma & Welling, 2013): log p(x) >= E_q log p(x | z) - KL(q(z | x) || p(z)), to be made large.

One code per example, z = mean + exp(log variance / 2) * eps with eps ~ N(0, I) from the example's key, so that the gradient
passes through z. Batch: image (B, ...), or another input; label (B,) where a classifier is trained along.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from weft import random
from weft.data.base import Batch
from weft.errors import ConfigError
from weft.objectives.base import Objective, ObjectiveConfig, Terms, count
from weft.objectives.classification import correct, label_loss, labelled


@dataclass(frozen=True, kw_only=True)
class ELBOConfig(ObjectiveConfig):
    input: str = "image"
    """Name of the input in a batch."""
    beta: float = 1.0
    """Weight of the KL term; 1 makes the loss a bound on -log p(x)."""
    label: float = 0.0
    """Weight of the cross-entropy of the labelled examples' classes; 0 uses no labels."""

    def build(self) -> ELBO:
        return ELBO(self)


class ELBO(Objective):
    def __init__(self, config: ELBOConfig):
        super().__init__()
        if config.label < 0:
            raise ConfigError(f"--objective.label must not be negative, not {config.label}")
        self.config = config
        self.weights = {"kl": config.beta, "label": config.label}

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        examples = count(len(batch["key"]), like=batch["key"])
        counts = {"reconstruction": examples, "kl": examples}
        if self.config.label:
            counts["label"] = counts["accuracy"] = labelled(batch["label"])
        return counts

    def forward(self, model: Any, batch: Batch, turn: str) -> Terms:
        x = batch[self.config.input]
        mean, log_variance = model.encode(x)  # each (B, Z)
        z = mean + (0.5 * log_variance).exp() * random.normal(random.fold(batch["key"], "code"), mean.size(1))
        sums = {"reconstruction": -model.decode(z).log_prob(x.flatten(1)).sum(), "kl": gaussian_kl(mean, log_variance).sum()}
        if not self.config.label:
            return Terms(sums)
        logits = model.classify_code(mean)
        return Terms({**sums, "label": label_loss(logits, batch["label"])}, {"accuracy": correct(logits, batch["label"])})


def gaussian_kl(mean: Tensor, log_variance: Tensor) -> Tensor:
    """KL(N(mean, exp(log variance)) || N(0, I)) of each example: (B, Z), (B, Z) -> (B,)."""
    return 0.5 * (mean.square() + log_variance.exp() - 1.0 - log_variance).sum(-1)
