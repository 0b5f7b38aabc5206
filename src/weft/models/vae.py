"""Variational autoencoder (Kingma & Welling, 2013, arXiv:1312.6114).

Encoder and decoder are perceptrons. The code is Gaussian, q(z | x) = N(mean, exp(log variance)); the decoder gives a Bernoulli
or a Gaussian p(x | z). A linear classifier may read the code's mean, for data of which few examples are labelled.
Shapes: B batch, X flattened data, Z latent, C classes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.distributions import Bernoulli, Normal

from weft import random
from weft.errors import CapabilityError, ConfigError
from weft.models.base import ModelConfig
from weft.models.mlp import Activation, Initial, Layers


@dataclass(frozen=True, kw_only=True)
class VAEConfig(ModelConfig):
    features: int = 0
    """Size X of one flattened example; 0 takes it from the data."""
    image: tuple[int, ...] = ()
    """Shape of a sample, (channels, height, width); () takes it from the data, or leaves samples flat."""
    latent: int = 16
    """Size Z of the code."""
    hidden: tuple[int, ...] = (256,)
    """Widths of the encoder's hidden layers; the decoder has them in reverse."""
    activation: Activation = "relu"
    """Non-linearity after each hidden layer."""
    initial: Initial = "xavier_uniform"
    """How weights are drawn."""
    decoder: Literal["bernoulli", "gaussian"] = "bernoulli"
    """p(x | z): bernoulli for pixels in [0, 1]; gaussian has one learned variance for all of x."""
    noise: float = 0.2
    """Standard deviation at which the gaussian decoder starts."""
    classifier: bool = False
    """Whether class logits are read off the mean of the code."""
    classes: int = 0
    """Number of classes C for the classifier; 0 takes it from the data."""

    def build(self) -> VAE:
        return VAE(self)


class VAE(nn.Module):
    def __init__(self, config: VAEConfig):
        super().__init__()
        c = self.config = config
        if c.noise <= 0:
            raise ConfigError(f"--model.noise must be above 0, not {c.noise}")
        self.encoder = Layers((c.features, *c.hidden, 2 * c.latent), activation=c.activation, initial=c.initial)
        self.decoder = Layers((c.latent, *reversed(c.hidden), c.features), activation=c.activation, initial=c.initial)
        self.log_variance = nn.Parameter(torch.tensor(2 * math.log(c.noise))) if c.decoder == "gaussian" else None
        self.classifier = Layers((c.latent, c.classes), initial=c.initial) if c.classifier else None

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x (B, ...) -> mean and log variance of q(z | x), each (B, Z)."""
        mean, log_variance = self.encoder(x.flatten(1)).float().chunk(2, dim=-1)
        return mean, log_variance

    def decode(self, z: Tensor) -> Bernoulli | Normal:
        """z (B, Z) -> p(x | z), independent over (B, X)."""
        out = self.decoder(z).float()
        if self.log_variance is None:
            return Bernoulli(logits=out, validate_args=False)
        return Normal(out, (0.5 * self.log_variance).exp(), validate_args=False)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, ...) -> the mean of p(x | z) at the most likely code, in the shape of x."""
        return self.decode(self.encode(x)[0]).mean.view_as(x)

    def sample(self, key: Tensor) -> Tensor:
        """key (B,) -> the mean of p(x | z) at a code z ~ N(0, I) of each key, (B, *image)."""
        z = random.normal(random.fold(key, "code"), self.config.latent)
        return self.decode(z).mean.view(-1, *(self.config.image or (self.config.features,)))

    def classify(self, x: Tensor) -> Tensor:
        """x (B, ...) -> class logits (B, C)."""
        return self.classify_code(self.encode(x)[0])

    def classify_code(self, mean: Tensor) -> Tensor:
        """Mean (B, Z) of a code -> class logits (B, C)."""
        if self.classifier is None:
            raise CapabilityError("this VAE has no classifier; train one with --model.classifier true --objective.label 1")
        logits: Tensor = self.classifier(mean)
        return logits


TINY = VAEConfig(latent=4, hidden=(16,))
"""Small enough for a test."""
PRESETS = {"tiny": TINY, "mnist": VAEConfig(features=784, image=(1, 28, 28), latent=20, hidden=(400,))}
