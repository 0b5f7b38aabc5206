"""The game over pairs of an example and its code (Donahue et al., 2016, arXiv:1605.09782).

The discriminator tells (x, E(x)) from (G(z), z). Generator and encoder lose together what makes it right: -log D(G(z), z) and
-log(1 - D(x, E(x))). At the end E inverts G. Batch: image (B, ...), or another input; codes come from the keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from weft.data.base import Batch
from weft.models.base import HasLatents, Inverts
from weft.objectives.base import Objective, ObjectiveConfig, Terms, Turn, count
from weft.objectives.generative.distribution_distance import frechet, moments
from weft.objectives.generative.gan_losses import bce_fake, bce_real


class BidirectionalGAN(HasLatents, Inverts, Protocol):
    """A generator, an encoder, and a discriminator of pairs of example and latent."""

    def discriminate_pair(self, x: Tensor, z: Tensor) -> Tensor: ...


@dataclass(frozen=True, kw_only=True)
class BidirectionalConfig(ObjectiveConfig):
    input: str = "image"
    """Name of the real examples in a batch."""

    def build(self) -> Bidirectional:
        return Bidirectional(self)


class Bidirectional(Objective):
    turns = (Turn("discriminator", ("discriminator",)), Turn("generator", ("generator", "encoder"), fresh=False))

    def __init__(self, config: BidirectionalConfig):
        super().__init__()
        self.config = config

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        return {"loss": count(len(batch["key"]), like=batch["key"])}

    def forward(self, model: BidirectionalGAN, batch: Batch, turn: str) -> Terms:
        x, z = batch[self.config.input], model.latents(batch["key"])
        own = turn == "generator"
        with torch.set_grad_enabled(torch.is_grad_enabled() and own):
            code, made = model.to_latent(x), model.to_data(z)
        real, fake = model.discriminate_pair(x, code), model.discriminate_pair(made, z)  # (B,)
        if own:
            return Terms({"loss": (bce_fake(real) + bce_real(fake)).sum()})
        metrics = {"real": real.detach().sigmoid().sum(), "fake": fake.detach().sigmoid().sum()}
        return Terms({"loss": (bce_real(real) + bce_fake(fake)).sum()}, metrics)

    def measure(self, model: BidirectionalGAN, batch: Batch) -> dict[str, Tensor]:
        """Squared error of G(E(x)) and E(G(z)), and sums for the distance of pixels."""
        x, z = batch[self.config.input].flatten(1), model.latents(batch["key"])
        made = model.to_data(z)
        errors = {
            "reconstruction": (model.to_data(model.to_latent(x)).flatten(1) - x).square().sum(),
            "code_error": (model.to_latent(made) - z).square().mean(1).sum(),
        }
        return errors | moments("real", x.view_as(made)) | moments("fake", made)

    def summary(self, means: dict[str, Tensor]) -> dict[str, float]:
        numbers = super().summary(means) | frechet(means, "discriminator_")
        for name in ("reconstruction", "code_error"):
            if f"discriminator_{name}" in numbers:
                numbers[name] = numbers.pop(f"discriminator_{name}")
        return numbers
