"""Translating an image into its pair (Isola et al., 2016, arXiv:1611.07004): the game about pairs, and the mean absolute error.

The discriminator tells (source, target) from (source, translated), patch by patch. The generator loses -log D(source, translated) and
a weight times the absolute error per pixel: the error keeps what is large, the game makes what is small look right.
Batch: source (B, C, S, S), image (B, D, S, S), both in [0, 1].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from weft.core.errors import ConfigError
from weft.data.base import Batch
from weft.models.base import Model
from weft.objectives.base import Objective, ObjectiveConfig, Terms, Turn, count
from weft.objectives.generative.distribution_distance import frechet, moments
from weft.objectives.generative.gan_losses import gan_loss, per_example


class ConditionalGAN(Model, Protocol):
    """Translates an image, and has a discriminator of pairs."""

    def __call__(self, source: Tensor) -> Tensor: ...
    def discriminate(self, source: Tensor, target: Tensor) -> Tensor: ...


@dataclass(frozen=True, kw_only=True)
class PairedImagesConfig(ObjectiveConfig):
    adversarial_weight: float = 1.0
    """Weight of the adversarial loss in the generator's loss; 0 leaves it to the L1 loss."""
    l1_weight: float = 100.0
    """Weight of the L1 loss (mean absolute error), of values from -1 to 1; 0 leaves it to the adversarial loss."""

    def build(self) -> PairedImages:
        return PairedImages(self)


class PairedImages(Objective):
    turns = (Turn("discriminator", ("discriminator",)), Turn("generator", ("generator",), fresh=False))

    def __init__(self, config: PairedImagesConfig):
        super().__init__()
        self.config = config
        if min(config.adversarial_weight, config.l1_weight) < 0 or not config.adversarial_weight + config.l1_weight > 0:
            weights = f"{config.adversarial_weight} and {config.l1_weight}"
            raise ConfigError(f"--objective.adversarial_weight and l1_weight must be at least 0 and one above 0, not {weights}")
        self.weights = {"game": config.adversarial_weight, "error": config.l1_weight}
        self.gan_loss = gan_loss("non_saturating")

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        examples = count(len(batch["key"]), like=batch["key"])
        return {"loss": examples, "game": examples, "error": examples}

    def forward(self, model: ConditionalGAN, batch: Batch, turn: str) -> Terms:
        source, target = batch["source"], batch["image"]
        with torch.set_grad_enabled(torch.is_grad_enabled() and turn == "generator"):
            made = model(source)
        score = model.discriminate(source, made)  # (B, P, P)
        if turn == "generator":
            error = 2 * (made - target).abs().flatten(1).mean(1)
            return Terms({"game": per_example(self.gan_loss.generator(score)).sum(), "error": error.sum()})
        real = model.discriminate(source, target)
        loss = per_example(self.gan_loss.real(real)) + per_example(self.gan_loss.fake(score))
        metrics = {name: per_example(odds.detach().sigmoid()).sum() for name, odds in (("real", real), ("fake", score))}
        return Terms({"loss": 0.5 * loss.sum()}, metrics)  # halved, so that it learns no faster than the generator

    def measure(self, model: ConditionalGAN, batch: Batch) -> dict[str, Tensor]:
        return moments("real", batch["image"]) | moments("fake", model(batch["source"]))

    def summary(self, means: dict[str, Tensor]) -> dict[str, float]:
        numbers = super().summary(means) | frechet(means, "discriminator_")
        if "generator_error" in numbers:
            numbers["pixel_error"] = numbers["generator_error"] / 2
        return numbers
