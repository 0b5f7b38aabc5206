"""Variational autoencoder (Kingma & Welling, 2013, arXiv:1312.6114).

The code is Gaussian, q(z | x) = N(mean, exp(log variance)); the decoder gives a Bernoulli or a Gaussian p(x | z). Encoder and
decoder are perceptrons, or perceptrons with residual convolutions between them and the image. A linear classifier may read the
code's mean, for data of which few examples are labelled.
Shapes: B batch, X flattened data, Z latent, C classes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.distributions import Bernoulli, Normal

from weft.core import random
from weft.core.errors import CapabilityError, ConfigError
from weft.models.base import ModelConfig
from weft.models.mlp import Activation, Initial, Layers
from weft.nn.convolution.residual_convolution import Down, Up

HIDDEN = 0.5
"""Value of a pixel that the encoder may not see: neither black nor white."""


@dataclass(frozen=True, kw_only=True)
class AutoencoderConfig(ModelConfig):
    """What every autoencoder of the family needs to know."""

    features: int = 0
    """Size X of one flattened example; 0 takes it from the data."""
    image: tuple[int, ...] = ()
    """Shape of a sample, (channels, height, width); () takes it from the data, or leaves samples flat."""
    latent: int = 16
    """Size Z of the code."""
    hidden: tuple[int, ...] = (256,)
    """Widths of the encoder's fully connected hidden layers; the decoder has them in reverse."""
    channels: tuple[int, ...] = ()
    """Channels of the convolutions at each resolution, from the image's own, each half the one before; none for perceptrons alone."""
    blocks: int = 1
    """Residual blocks at each resolution of the convolutions."""
    activation: Activation = "relu"
    """Non-linearity after each fully connected hidden layer."""
    weight_init: Initial = "xavier_uniform"
    """Initialisation of the weights of fully connected layers."""
    decoder: Literal["bernoulli", "gaussian"] = "bernoulli"
    """p(x | z): bernoulli for pixels in [0, 1]; gaussian has one learned variance for all of x."""
    noise: float = 0.2
    """Standard deviation at which the gaussian decoder starts."""


@dataclass(frozen=True, kw_only=True)
class VAEConfig(AutoencoderConfig):
    classifier: bool = False
    """Whether class logits are read off the mean of the code."""
    classes: int = 0
    """Number of classes C for the classifier; 0 takes it from the data."""

    def build(self) -> VAE:
        return VAE(self)


class Autoencoder(nn.Module):
    """q(z | x) and p(x | z), both given y (B, C) too where the model is told of a class."""

    def __init__(self, config: AutoencoderConfig, classes: int = 0):
        super().__init__()
        c = self.config = config
        if not c.noise > 0:
            raise ConfigError(f"--model.noise must be above 0, not {c.noise}")
        self.down = Down(c.image, c.channels, c.blocks) if c.channels else None
        self.up = Up(c.image, c.channels, c.blocks) if c.channels else None
        inside = math.prod(self.down.shape) if self.down else c.features
        settings = {"activation": c.activation, "initial": c.weight_init}
        self.encoder = Layers((inside + classes, *c.hidden, 2 * c.latent), **settings)  # type: ignore[arg-type]
        self.decoder = Layers((c.latent + classes, *reversed(c.hidden), inside), **settings)  # type: ignore[arg-type]
        self.log_variance = nn.Parameter(torch.tensor(2 * math.log(c.noise))) if c.decoder == "gaussian" else None

    def encode(self, x: Tensor, y: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """x (B, ...) -> mean and log variance of q(z | x), each (B, Z)."""
        maps = x.flatten(1) if self.down is None else self.down(x.reshape(len(x), *self.config.image)).flatten(1)
        mean, log_variance = self.encoder(join(maps, y)).float().chunk(2, dim=-1)
        return mean, log_variance

    def decode(self, z: Tensor, y: Tensor | None = None) -> Bernoulli | Normal:
        """z (B, Z) -> p(x | z), independent over (B, X)."""
        out = self.decoder(join(z, y))
        if self.up is not None:
            out = self.up(out.view(len(z), *self.up.shape)).flatten(1)
        if self.log_variance is None:
            return Bernoulli(logits=out.float(), validate_args=False)
        return Normal(out.float(), (0.5 * self.log_variance).exp(), validate_args=False)

    def hide(self, x: Tensor, known: Tensor) -> Tensor:
        """x (B, ...) and what of it may be seen, bool (B, ...) -> x with the rest made grey."""
        return x.where(known, torch.full_like(x, HIDDEN))

    def code(self, key: Tensor) -> Tensor:
        """key (B,) -> z ~ N(0, I), (B, Z)."""
        return random.normal(random.fold(key, "code"), self.config.latent)

    def shaped(self, pixels: Tensor) -> Tensor:
        """pixels (B, X) -> (B, *image)."""
        return pixels.view(-1, *(self.config.image or (self.config.features,)))


def join(x: Tensor, y: Tensor | None) -> Tensor:
    """x (B, X) and, where the model is told of a class, y (B, C) -> one row each."""
    return x if y is None else torch.cat((x, y.to(x.dtype)), dim=1)


class VAE(Autoencoder):
    def __init__(self, config: VAEConfig):
        super().__init__(config)
        self.classifier = Layers((config.latent, config.classes), initial=config.weight_init) if config.classifier else None

    def forward(self, x: Tensor) -> Tensor:
        """x (B, ...) -> the mean of p(x | z) at the most likely code, in the shape of x."""
        return self.decode(self.encode(x)[0]).mean.view_as(x)

    def latents(self, key: Tensor) -> Tensor:
        """key (B,) -> z ~ N(0, I), (B, Z)."""
        return self.code(key)

    def to_data(self, z: Tensor) -> Tensor:
        """z (B, Z) -> the mean of p(x | z), (B, *image)."""
        return self.shaped(self.decode(z).mean)

    def sample(self, key: Tensor) -> Tensor:
        """key (B,) -> the mean of p(x | z) at a code z ~ N(0, I) of each key, (B, *image)."""
        return self.to_data(self.latents(key))

    def inpaint(self, x: Tensor, known: Tensor, key: Tensor | None = None) -> Tensor:
        """x (B, ...) and what of it is known, bool (B, ...) -> x with the rest filled in; good after training on hidden parts.

        Nothing is drawn: key (B,) changes nothing.
        """
        return torch.where(known, x, self(self.hide(x, known)))

    def classify(self, x: Tensor) -> Tensor:
        """x (B, ...) -> class logits (B, C)."""
        return self.classify_code(self.encode(x)[0])

    def classify_code(self, mean: Tensor) -> Tensor:
        """Mean (B, Z) of a code -> class logits (B, C)."""
        if self.classifier is None:
            raise CapabilityError("this VAE has no classifier; train one with --model.classifier true --objective.classification_weight 1")
        logits: Tensor = self.classifier(mean)
        return logits


TINY = VAEConfig(latent=4, hidden=(16,))
"""Small enough for a test."""
PRESETS = {
    "tiny": TINY,
    "mnist_mlp": VAEConfig(features=784, image=(1, 28, 28), latent=32, hidden=(512, 512)),
    "mnist": VAEConfig(features=784, image=(1, 28, 28), latent=32, hidden=(256,), channels=(32, 64, 64), blocks=2),
}
