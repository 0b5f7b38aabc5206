"""How a network learns to recall patterns, given a part of one or one with errors.

Hebb's rule, W = Σ x xᵀ with a diagonal of zeros (Hopfield, 1982), is the gradient of minus the energy of the patterns: one step
of gradient descent from W = 0 over all of them, at rate 1, gives it (divided by their number, which no sign notices). More steps
only make W longer. It recalls patterns that are nearly orthogonal, about 0.138 X of them with few errors and X / (2 ln X) without.
Patterns that resemble each other, as images do, need couplings by which each unit follows from all others: the pseudo-likelihood
(Besag, 1975), over many steps.

Batch: image (B, ...), binary, X pixels each; the network is shown 2 x - 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from weft.core import random
from weft.core.errors import ConfigError
from weft.data.base import Batch
from weft.models.base import Recalls
from weft.objectives.base import Objective, ObjectiveConfig, Terms, count


@dataclass(frozen=True, kw_only=True)
class AssociativeMemoryConfig(ObjectiveConfig):
    rule: Literal["hebb", "pseudo_likelihood"] = "hebb"
    """hebb for patterns that have little in common, in one step; pseudo_likelihood for all others, in many."""
    flipped: float = 0.2
    """Share of the units turned over before validation asks for the pattern."""

    def build(self) -> AssociativeMemory:
        return AssociativeMemory(self)


class AssociativeMemory(Objective):
    needs = Recalls
    autocast = False

    def __init__(self, config: AssociativeMemoryConfig):
        super().__init__()
        self.config = config
        if not 0 <= config.flipped <= 1:
            raise ConfigError(f"--objective.flipped must lie between 0 and 1, not {config.flipped}")

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        return {"loss": count(len(batch["image"]), like=batch["image"])}

    def forward(self, model: Recalls, batch: Batch, turn: str) -> Terms:
        x = spins(batch)
        loss = model.energy(x) if self.config.rule == "hebb" else -model.pseudo_log_likelihood(x)
        return Terms({"loss": loss.sum()})

    def measure(self, model: Recalls, batch: Batch) -> dict[str, Tensor]:
        """Share of the units that are right, and of the patterns all of whose units are, after recall from a damaged pattern."""
        x = spins(batch)
        damaged = torch.where(random.uniform(random.fold(batch["key"], "flip"), x.size(1)) < self.config.flipped, -x, x)
        right = (model.recall(damaged) == x).to(torch.float32)
        return {"recalled": right.mean(1).sum(), "recalled_whole": right.amin(1).sum(), "damaged": (damaged == x).float().mean(1).sum()}


def spins(batch: Batch) -> Tensor:
    """The batch's images as -1 and 1, (B, X)."""
    return 2 * batch["image"].flatten(1) - 1
