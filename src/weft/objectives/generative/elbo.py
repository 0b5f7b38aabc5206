"""Negative evidence lower bound (Kingma & Welling, 2013): log p(x) >= E_q log p(x | z) - KL(q(z | x) || p(z)), to be made large.

One code per example, z = mean + exp(log variance / 2) * eps with eps ~ N(0, I) from the example's key, so that the gradient
passes through z. It is a bound whatever q is told: the class as well, for a conditional model, which then has log p(x | y); or
only a part of x, from which the model learns to fill in the rest. With several codes the importance-weighted bound (Burda et al.,
2015, arXiv:1509.00519) comes closer to log p(x).
Batch: image (B, ...), or another input; label (B,) for a conditional model, or where a classifier is trained along.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from weft.core import random
from weft.core.errors import ConfigError
from weft.data.base import Batch
from weft.models.base import Model
from weft.nn.one_hot import one_hot
from weft.objectives.base import Objective, ObjectiveConfig, Terms, count
from weft.objectives.classification import correct, label_loss, labelled


class Autoencoder(Model, Protocol):
    """Tells the mean and log-variance of a code, and the torch.distributions of an example given a code; both may be told a condition."""

    classes: int

    def encode(self, x: Tensor, y: Tensor | None = None) -> tuple[Tensor, Tensor]: ...
    def decode(self, z: Tensor, y: Tensor | None = None) -> Any: ...
    def hide(self, x: Tensor, known: Tensor) -> Tensor: ...
    def classify_code(self, mean: Tensor) -> Tensor: ...


@dataclass(frozen=True, kw_only=True)
class ELBOConfig(ObjectiveConfig):
    unit = "nats per example"

    input: str = "image"
    """Name of the input in a batch."""
    beta: float = 1.0
    """Weight of the KL term; 1 makes the loss a bound on -log p(x)."""
    classification_weight: float = 0.0
    """Weight of the cross-entropy of the labelled examples' classes, told from the code; 0 uses no labels."""
    mask_size: float = 0.0
    """Side of a square hidden from the encoder, as a share of the image's; somewhere else each time. 0 hides nothing."""
    image: tuple[int, ...] = ()
    """Shape of an image, (channels, height, width), of which a square is hidden; () takes it from the data."""

    def build(self) -> ELBO:
        return ELBO(self)


class ELBO(Objective):
    def __init__(self, config: ELBOConfig):
        super().__init__()
        if config.classification_weight < 0:
            raise ConfigError(f"--objective.classification_weight must not be negative, not {config.classification_weight}")
        if not 0.0 <= config.mask_size <= 1.0:
            raise ConfigError(f"--objective.mask_size must be from 0 to 1, not {config.mask_size}")
        if config.mask_size and len(config.image) != 3:
            raise ConfigError(f"--objective.mask_size is for images, but the data has the shape {config.image}")
        self.config, self.classes = config, "label" if config.classification_weight else ""
        self.weights = {"kl": config.beta, "label": config.classification_weight}
        self.side = round(config.mask_size * min(config.image[1:])) if config.mask_size else 0

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        examples = count(len(batch["key"]), like=batch["key"])
        counts = {"reconstruction": examples, "kl": examples}
        if self.config.classification_weight:
            counts["label"] = counts["accuracy"] = labelled(batch["label"])
        if self.side:
            counts["hidden_error"] = examples * self.config.image[0] * self.side**2
        return counts

    def forward(self, model: Autoencoder, batch: Batch, turn: str) -> Terms:
        x, key, metrics = batch[self.config.input], batch["key"], {}
        condition = (one_hot(batch["label"], model.classes),) if getattr(model, "conditional", False) else ()
        known = outside(key, self.config.image, self.side).view_as(x) if self.side else None
        mean, log_variance = model.encode(x if known is None else model.hide(x, known), *condition)  # each (B, Z)
        made = model.decode(draw(mean, log_variance, key), *condition)
        sums = {"reconstruction": -made.log_prob(x.flatten(1)).sum(), "kl": gaussian_kl(mean, log_variance).sum()}
        if known is not None:
            error = (made.mean.detach() - x.flatten(1)).square()  # (B, X)
            metrics["hidden_error"] = (error * ~known.flatten(1)).sum()
        if self.config.classification_weight:
            logits = model.classify_code(mean)
            sums["label"] = label_loss(logits, batch["label"])
            metrics["accuracy"] = correct(logits, batch["label"])
        return Terms(sums, metrics)


def draw(mean: Tensor, log_variance: Tensor, key: Tensor) -> Tensor:
    """A code of each example from N(mean, exp(log variance)), with the noise of its key: (B, Z)."""
    return mean + (0.5 * log_variance).exp() * random.normal(random.fold(key, "code"), mean.size(1))


def gaussian_kl(mean: Tensor, log_variance: Tensor) -> Tensor:
    """KL(N(mean, exp(log variance)) || N(0, I)) of each example: (B, Z), (B, Z) -> (B,)."""
    return 0.5 * (mean.square() + log_variance.exp() - 1.0 - log_variance).sum(-1)


def negative_bound(model: Autoencoder, x: Tensor, key: Tensor, *condition: Tensor) -> Tensor:
    """-(log p(x | z) - KL) of each example with one code from its key: (B,); `condition` is y (B, C) of a conditional model."""
    mean, log_variance = model.encode(x, *condition)
    reconstruction: Tensor = -model.decode(draw(mean, log_variance, key), *condition).log_prob(x.flatten(1)).sum(1)
    return reconstruction + gaussian_kl(mean, log_variance)


@torch.no_grad()
def importance_bound(model: Autoencoder, x: Tensor, key: Tensor, samples: int, *condition: Tensor) -> Tensor:
    """log of the mean of p(x | z) p(z) / q(z | x) over so many codes of each example, a lower bound on log p(x) in the mean: (B,)."""
    mean, log_variance = model.encode(x, *condition)
    total = torch.full_like(mean[:, 0], -math.inf, dtype=torch.float64)
    for number in range(samples):
        z = draw(mean, log_variance, random.fold(key, number))
        likelihood = model.decode(z, *condition).log_prob(x.flatten(1)).double().sum(1)
        noise = (z - mean) * (-0.5 * log_variance).exp()
        prior_over_code = 0.5 * (noise.square() + log_variance - z.square()).double().sum(1)  # log p(z) - log q(z | x)
        total = torch.logaddexp(total, likelihood + prior_over_code)
    return total - math.log(samples)


def outside(key: Tensor, image: tuple[int, ...], side: int) -> Tensor:
    """Which pixels of an image (C, H, W) lie outside a square at a place of each key's own: bool (B, C, H, W)."""
    inside = []
    for name, size in (("top", image[1]), ("left", image[2])):
        first = random.integers(random.fold(random.fold(key, "hide"), name), size - side + 1)[:, None]
        place = torch.arange(size, device=key.device)
        inside.append((place >= first) & (place < first + side))
    hidden = inside[0][:, None, :, None] & inside[1][:, None, None, :]
    return ~hidden.expand(-1, image[0], -1, -1)
