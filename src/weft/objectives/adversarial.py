"""The adversarial game (Goodfellow et al., 2014): the discriminator learns to tell real from generated, the generator to pass.

With D = sigmoid(log-odds), the discriminator's loss is -log D(real) - log(1 - D(generated)); at its best, D = p / (p + q), it is
log 4 - 2 JSD(p, q). The generator's is -log D(generated), or log(1 - D(generated)), whose gradient dies where D is sure.
Batch: image (B, ...), or another input with values in [0, 1]; noise comes from the keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from weft.data.base import Batch
from weft.errors import ConfigError
from weft.objectives.base import Objective, ObjectiveConfig, Terms, Turn, count


@dataclass(frozen=True, kw_only=True)
class AdversarialConfig(ObjectiveConfig):
    input: str = "image"
    """Name of the real examples in a batch."""
    loss: Literal["non_saturating", "saturating"] = "non_saturating"
    """The generator's loss: -log D(generated), or the minimax game's log(1 - D(generated))."""
    discriminator_turns: int = 1
    """Updates of the discriminator, each on new data, before one of the generator."""

    def build(self) -> Adversarial:
        return Adversarial(self)


class Adversarial(Objective):
    def __init__(self, config: AdversarialConfig):
        super().__init__()
        if config.discriminator_turns < 1:
            raise ConfigError(f"--objective.discriminator_turns must be at least 1, not {config.discriminator_turns}")
        self.config = config
        first = Turn("discriminator", ("discriminator",))
        self.turns = (*[first] * config.discriminator_turns, Turn("generator", ("generator",), fresh=False))

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        return {"loss": count(len(batch["key"]), like=batch["key"])}

    def forward(self, model: Any, batch: Batch, turn: str) -> Terms:
        fake = model.judge(model.sample(batch["key"]))  # (B,)
        if turn == "generator":
            loss = F.softplus(-fake) if self.config.loss == "non_saturating" else -F.softplus(fake)
            return Terms({"loss": loss.sum()})
        real = model.judge(batch[self.config.input])  # (B,)
        metrics = {"real": real.detach().sigmoid().sum(), "fake": fake.detach().sigmoid().sum()}
        return Terms({"loss": (F.softplus(-real) + F.softplus(fake)).sum()}, metrics)

    def measure(self, model: Any, batch: Batch) -> dict[str, Tensor]:
        """Sums from which `summary` has the mean and covariance of real and of generated pixels."""
        examples = {"real": batch[self.config.input], "fake": model.sample(batch["key"])}
        sums: dict[str, Tensor] = {}
        for name, x in examples.items():
            flat = x.flatten(1).double()  # (B, X); autocast leaves float64 alone
            sums |= {f"{name}_first": flat.sum(0), f"{name}_second": flat.mT @ flat}
        return sums

    def summary(self, means: dict[str, Tensor]) -> dict[str, float]:
        numbers = super().summary(means)
        moments = [means.get(f"discriminator_{name}") for name in ("real_first", "real_second", "fake_first", "fake_second")]
        if all(moment is not None for moment in moments):
            numbers["frechet_pixels"] = frechet_distance(*moments)  # type: ignore[arg-type]
        return numbers


def frechet_distance(first1: Tensor, second1: Tensor, first2: Tensor, second2: Tensor) -> float:
    """Squared Fréchet distance of two Gaussians given their moments E x (X,) and E x xᵀ (X, X) (Dowson & Landau, 1982).

    |m1 - m2|² + tr S1 + tr S2 - 2 tr (S1 S2)^½, where the eigenvalues of S1 S2 are those of the symmetric S1^½ S2 S1^½.
    """
    first1, second1, first2, second2 = (moment.double() for moment in (first1, second1, first2, second2))
    covariance1, covariance2 = second1 - first1.outer(first1), second2 - first2.outer(first2)
    values, vectors = torch.linalg.eigh(covariance1)
    root = (vectors * values.clamp(min=0).sqrt()) @ vectors.mT
    cross = torch.linalg.eigvalsh(root @ covariance2 @ root).clamp(min=0).sqrt().sum()
    distance = (first1 - first2).square().sum() + covariance1.trace() + covariance2.trace() - 2 * cross
    return float(distance.clamp(min=0))
