"""What every generator and discriminator share, whatever they are made of: noise, labels, and what is said of an example.

A conditional generator is given the class beside the noise, and its discriminator adds the product of features and class
(Mirza & Osindero, 2014, arXiv:1411.1784; projection: Miyato & Koyama, 2018, arXiv:1802.05637). A classifying discriminator has a logit
for each of K classes and a fixed 0 for "generated", the class K + 1 (Salimans et al., 2016, arXiv:1606.03498): the log-odds of real
are then log sum exp of the K logits, so the game needs no form of its own.
Shapes: B batch, Z latent, F features, K classes.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from weft.core import random
from weft.core.errors import CapabilityError, ConfigError
from weft.nn.minibatch_discrimination import MinibatchDiscrimination
from weft.nn.one_hot import one_hot
from weft.nn.weight_norm import WeightNormLinear


def check_shape(config: Any) -> None:
    """Refuse a shape of samples that does not hold their features."""
    if config.image and (min(config.image) < 1 or math.prod(config.image) != config.features):
        raise ConfigError(f"--model.image {config.image} does not hold {config.features} numbers; leave it out to take it from the data")


class DiscriminatorHead(nn.Module):
    """What a discriminator says from its last features."""

    def __init__(self, features: int, *, classes: int, conditional: bool, classifier: bool, kernels: int = 0, weight_norm: bool = False):
        super().__init__()
        if conditional and classifier:
            raise ConfigError(
                "a discriminator that is told the class cannot be asked for it; choose --model.conditional or --model.classifier"
            )
        if (conditional or classifier) and classes < 1:
            raise ConfigError("--model.classes must be at least 1 for a conditional or classifying model; the data may tell it")
        if kernels < 0:
            raise ConfigError(f"--model.minibatch_kernels must not be negative, not {kernels}")
        self.classes, self.classifier = classes, classifier
        self.minibatch_discrimination = MinibatchDiscrimination(features, kernels) if kernels else None
        width = features + kernels
        self.output = (WeightNormLinear if weight_norm else nn.Linear)(width, classes if classifier else 1)
        self.label_embedding = nn.Parameter(torch.randn(classes, width) * width**-0.5) if conditional else None

    def logits(self, features: Tensor) -> Tensor:
        """features (B, F) -> class logits (B, K)."""
        if not self.classifier:
            raise CapabilityError(
                "this discriminator tells no classes; train one with --model.classifier true --objective.classification_weight 1"
            )
        out: Tensor = self.output(features if self.minibatch_discrimination is None else self.minibatch_discrimination(features)).float()
        return out

    def forward(self, features: Tensor, label: Tensor | None = None) -> Tensor:
        """features (B, F), label (B,) of a conditional model -> log-odds that each is real, (B,)."""
        if self.classifier:
            return self.logits(features).logsumexp(1)
        if self.minibatch_discrimination is not None:
            features = self.minibatch_discrimination(features)
        odds: Tensor = self.output(features).float().squeeze(1)
        if self.label_embedding is None:
            return odds
        if label is None:
            raise CapabilityError("this discriminator takes an example and its class together, but was given no class")
        return odds + (features.float() * (one_hot(label, self.classes) @ self.label_embedding).float()).sum(1)


class GANBase(nn.Module):
    """A generator (`generator`) and a discriminator of two parts: `discriminator.features` and `discriminator.head`."""

    generator: nn.Module
    discriminator: Discriminator

    def __init__(self, latent: int, classes: int, conditional: bool):
        super().__init__()
        self.latent, self.classes, self.conditional = latent, classes, conditional
        self.separable = True

    @property
    def inputs(self) -> int:
        """Numbers that the generator is given."""
        return self.latent + (self.classes if self.conditional else 0)

    def forward(self, z: Tensor) -> Tensor:
        """Noise, and beside it the class of a conditional model, (B, Z) or (B, Z + K) -> examples (B, ...)."""
        examples: Tensor = self.generator(z)
        return examples

    def sample(self, key: Tensor) -> Tensor:
        """key (B,) -> one example per key from noise z ~ N(0, I), of a class drawn with the key where there are classes."""
        return self.to_data(self.latents(key))

    def sample_class(self, key: Tensor, label: Tensor) -> Tensor:
        """key (B,), label (B,) -> one example of each class per key."""
        if not self.conditional:
            raise CapabilityError(f"this {type(self).__name__} was trained without classes; train one with --model.conditional true")
        return self.to_data(self._beside(key, label))

    def latents(self, key: Tensor) -> Tensor:
        """key (B,) -> noise z ~ N(0, I) of each, and beside it a random class where there are classes, (B, Z) or (B, Z + K)."""
        return self._beside(key, random.integers(random.fold(key, "class"), self.classes) if self.conditional else None)

    def _beside(self, key: Tensor, label: Tensor | None) -> Tensor:
        noise = random.normal(random.fold(key, "noise"), self.latent)
        return noise if label is None else torch.cat([noise, one_hot(label, self.classes)], dim=1)

    def to_data(self, z: Tensor) -> Tensor:
        """What latents become: (B, Z) or (B, Z + K) -> examples (B, ...)."""
        examples: Tensor = self(z)
        return examples

    def features(self, x: Tensor) -> Tensor:
        """x (B, ...) -> the discriminator's last features (B, F)."""
        found: Tensor = self.discriminator.features(x)
        return found

    def discriminate(self, x: Tensor, label: Tensor | None = None) -> Tensor:
        """x (B, ...) -> log-odds that each is real (a critic's value where it is trained as one), (B,)."""
        odds: Tensor = self.discriminator.head(self.features(x), label)
        return odds

    def classify(self, x: Tensor) -> Tensor:
        """x (B, ...) -> class logits (B, K)."""
        return self.discriminator.head.logits(self.features(x))


class Discriminator(nn.Module):
    def __init__(self, features: nn.Module, head: DiscriminatorHead):
        super().__init__()
        self.features = features
        self.head = head
