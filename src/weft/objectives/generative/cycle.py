"""Translating between two domains without pairs (Zhu et al., 2017, arXiv:1703.10593): two games, and the way there and back.

Each generator plays a least-squares game against the discriminator of the domain it leads to. What is translated there and back must
be what it was: the mean absolute error of the cycle keeps the content, which the games alone do not ask for.
Batch: image (B, C, S, S) of the first domain, other (B, C, S, S) of the second, both in [0, 1]; truth (B, C, S, S), the image in the
second domain, where the data knows it, for measuring only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from weft.core.errors import ConfigError
from weft.data.base import Batch
from weft.models.base import TranslatesImages
from weft.objectives.base import Objective, ObjectiveConfig, Terms, Turn, count
from weft.objectives.generative.gan_losses import Loss, gan_loss, per_example


class CyclePair(TranslatesImages, Protocol):
    """Translates both ways, and has a discriminator of each domain."""

    def discriminate(self, x: Tensor, domain: str) -> Tensor: ...


@dataclass(frozen=True, kw_only=True)
class CycleConfig(ObjectiveConfig):
    loss: Loss = "least_squares"
    """GAN loss of both GANs."""
    cycle_weight: float = 10.0
    """Weight of cycle consistency: the mean absolute error of an image translated there and back, of values from -1 to 1; 0 for none."""
    identity_weight: float = 0.0
    """Weight of the identity loss: the error of translating what is in the right domain already, which keeps colours."""

    def build(self) -> Cycle:
        return Cycle(self)


class Cycle(Objective):
    turns = (Turn("generators", ("generators",)), Turn("discriminators", ("discriminators",), fresh=False))

    def __init__(self, config: CycleConfig):
        super().__init__()
        if min(config.cycle_weight, config.identity_weight) < 0:
            raise ConfigError(
                f"--objective.cycle_weight and identity_weight must not be negative, not {config.cycle_weight} and {config.identity_weight}"
            )
        self.config = config
        self.weights = {"cycle": config.cycle_weight, "identity": config.identity_weight}
        self.gan_loss = gan_loss(config.loss)

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        examples = count(len(batch["key"]), like=batch["key"])
        return {"game": examples, "cycle": examples, "identity": examples, "loss": examples}

    def forward(self, model: CyclePair, batch: Batch, turn: str) -> Terms:
        a, b = batch["image"], batch["other"]
        own = turn == "generators"
        with torch.set_grad_enabled(torch.is_grad_enabled() and own):
            made_b, made_a = model.translate(a, "a2b"), model.translate(b, "b2a")
        fooled = model.discriminate(made_b, "b"), model.discriminate(made_a, "a")
        if not own:
            known = model.discriminate(b, "b"), model.discriminate(a, "a")
            parts = [per_example(self.gan_loss.real(score)) for score in known] + [
                per_example(self.gan_loss.fake(score)) for score in fooled
            ]
            return Terms({"loss": 0.5 * torch.stack(parts).sum()})  # halved, so that they learn no faster than the generators
        passing = torch.stack([per_example(self.gan_loss.generator(score)) for score in fooled])  # (2, B)
        sums = {"game": passing.sum()}
        sums["cycle"] = error(model.translate(made_b, "b2a"), a) + error(model.translate(made_a, "a2b"), b)
        if self.config.identity_weight:
            sums["identity"] = error(model.translate(b, "a2b"), b) + error(model.translate(a, "b2a"), a)
        return Terms(sums)

    def measure(self, model: CyclePair, batch: Batch) -> dict[str, Tensor]:
        """Mean absolute errors of pixels in [0, 1]: against the true translation where it is known, and of the way there and back."""
        made = model.translate(batch["image"], "a2b")
        found = {"cycle_error": 0.5 * error(model.translate(made, "b2a"), batch["image"])}
        return found | ({"translation_error": 0.5 * error(made, batch["truth"])} if "truth" in batch else {})

    def summary(self, means: dict[str, Tensor]) -> dict[str, float]:
        numbers = super().summary(means)
        names = [name for name in ("cycle_error", "translation_error") if f"generators_{name}" in numbers]
        return numbers | {name: numbers.pop(f"generators_{name}") for name in names}


def error(made: Tensor, wanted: Tensor) -> Tensor:
    """Absolute error of values from -1 to 1, averaged over each image (B, ...) in [0, 1] and summed over images."""
    return 2 * (made - wanted).abs().flatten(1).mean(1).sum()
