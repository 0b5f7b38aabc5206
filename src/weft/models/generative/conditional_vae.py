"""Autoencoders that are told of a class.

The conditional VAE (Sohn, Lee & Yan, 2015) has p(x | y, z) and q(z | x, y): the class y is given, the code holds what else there is
to say. M2 of Kingma et al. (2014, arXiv:1406.5298) has a prior p(y), uniform here, and q(y | x) besides, so that examples whose
class is not known can be learned from too.
Shapes: B batch, X flattened data, Z latent, C classes. A class is y (B, C), one-hot; where it is not known, of zeros.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from weft.core import random
from weft.models.base import check_shares, check_sizes
from weft.models.generative.vae import Autoencoder, AutoencoderConfig
from weft.models.mlp import Layers
from weft.nn.convolution.residual_convolution import Down
from weft.nn.one_hot import one_hot


@dataclass(frozen=True, kw_only=True)
class ConditionalVAEConfig(AutoencoderConfig):
    classes: int = 0
    """Number of classes C; 0 takes it from the data."""

    def build(self) -> ConditionalVAE:
        return ConditionalVAE(self)


@dataclass(frozen=True, kw_only=True)
class SemiSupervisedVAEConfig(ConditionalVAEConfig):
    classifier_channels: tuple[int, ...] = ()
    """Channels of the convolutions of the classifier q(y | x) at each resolution, as `channels`; none for a perceptron."""
    dropout: float = 0.0
    """Share of the hidden layers of q(y | x) zeroed in training."""

    def build(self) -> SemiSupervisedVAE:
        return SemiSupervisedVAE(self)


class ConditionalVAE(Autoencoder):
    conditional = True
    """The objective gives it the class of every example."""

    def __init__(self, config: ConditionalVAEConfig):
        check_sizes(config, classes=1)
        super().__init__(config, config.classes)
        self.classes = config.classes

    def forward(self, x: Tensor, label: Tensor) -> Tensor:
        """x (B, ...), label (B,) -> the mean of p(x | y, z) at the most likely code, in the shape of x."""
        y = one_hot(label, self.classes)
        return self.decode(self.encode(x, y)[0], y).mean.view_as(x)

    def latents(self, key: Tensor) -> Tensor:
        """key (B,) -> z ~ N(0, I) and y of a random class, side by side, (B, Z + C)."""
        label = random.integers(random.fold(key, "class"), self.classes)
        return torch.cat((self.code(key), one_hot(label, self.classes)), dim=1)

    def to_data(self, z: Tensor) -> Tensor:
        """z and y side by side (B, Z + C) -> the mean of p(x | y, z), (B, *image)."""
        latent = self.config.latent
        return self.shaped(self.decode(z[:, :latent], z[:, latent:]).mean)

    def sample(self, key: Tensor) -> Tensor:
        """key (B,) -> one example per key, of a random class, (B, *image)."""
        return self.to_data(self.latents(key))

    def sample_class(self, key: Tensor, label: Tensor) -> Tensor:
        """key (B,), label (B,) -> one example per key, of the class asked for, (B, *image)."""
        return self.to_data(torch.cat((self.code(key), one_hot(label, self.classes)), dim=1))


class SemiSupervisedVAE(ConditionalVAE):
    def __init__(self, config: SemiSupervisedVAEConfig):
        super().__init__(config)
        check_shares(config, "dropout")
        c = config
        self.reader = Down(c.image, c.classifier_channels, c.blocks) if c.classifier_channels else None
        inside = math.prod(self.reader.shape) if self.reader else c.features
        sizes = (inside, *c.hidden, c.classes)
        self.classifier = Layers(sizes, activation=c.activation, dropout=c.dropout, initial=c.weight_init)

    def classify(self, x: Tensor) -> Tensor:
        """x (B, ...) -> logits of q(y | x), (B, C)."""
        maps = x.flatten(1) if self.reader is None else self.reader(x.reshape(len(x), *self.config.image)).flatten(1)
        logits: Tensor = self.classifier(maps)
        return logits.float()


TINY = ConditionalVAEConfig(latent=4, hidden=(16,))
"""Small enough for a test."""
PRESETS = {"tiny": TINY, "mnist": ConditionalVAEConfig(features=784, image=(1, 28, 28), classes=10, latent=20, hidden=(400,))}
