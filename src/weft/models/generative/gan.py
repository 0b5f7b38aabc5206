"""Generative adversarial network of two perceptrons (Goodfellow et al., 2014, arXiv:1406.2661).

The generator turns noise into an example; the discriminator gives the log-odds that an example is real. Gaussian noise and
weight normalisation in the discriminator are those of Salimans et al. (2016, arXiv:1606.03498) for few labels.
Shapes: B batch, X flattened data, Z latent, K classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn

from weft.core import random
from weft.core.errors import ConfigError
from weft.models.base import ModelConfig, check_shares, check_sizes
from weft.models.generative.adversaries import Discriminator, DiscriminatorHead, GANBase, check_shape
from weft.models.mlp import Initial
from weft.nn import init
from weft.nn.dropout import Dropout
from weft.nn.virtual_batch_norm import VirtualBatchNorm
from weft.nn.weight_norm import Noise, WeightNormLinear

Norm = Literal["none", "batch", "virtual"]
REFERENCE = 64
"""Rows of the reference batch of virtual batch normalisation."""


@dataclass(frozen=True, kw_only=True)
class GANConfig(ModelConfig):
    features: int = 0
    """Size X of one flattened example; 0 takes it from the data."""
    image: tuple[int, ...] = ()
    """Shape of a sample, (channels, height, width); () takes it from the data, or leaves samples flat."""
    latent: int = 32
    """Size Z of the noise."""
    generator: tuple[int, ...] = (256, 256)
    """Widths of the generator's hidden layers, each followed by a ReLU."""
    norm: Norm = "none"
    """Normalisation of the generator's hidden layers: none, over the batch, or over a fixed reference batch."""
    output: Literal["sigmoid", "linear"] = "sigmoid"
    """What the generator ends with: sigmoid for pixels in (0, 1), linear for points anywhere."""
    discriminator: tuple[int, ...] = (256, 256)
    """Widths of the discriminator's hidden layers, each followed by a leaky ReLU."""
    dropout: float = 0.0
    """Share of each hidden layer of the discriminator zeroed in training."""
    noise: tuple[float, float] = (0.0, 0.0)
    """Deviation of Gaussian noise added in training to the discriminator's input, and to each of its hidden layers."""
    weight_norm: bool = False
    """Whether the discriminator's weights are normalised row by row."""
    minibatch_kernels: int = 0
    """Kernels of minibatch discrimination before the discriminator's output; 0 for none."""
    conditional: bool = False
    """Whether both networks are told the class."""
    classifier: bool = False
    """Whether the discriminator tells the class of what is real."""
    classes: int = 0
    """Number of classes K, where they are used; 0 takes it from the data."""
    weight_init: Initial = "he"
    """Initialisation of the weights."""

    def build(self) -> GAN:
        return GAN(self)


class WithReferenceBatch(nn.Module):
    """A network with virtual batch normalisation, which sees a fixed batch of noise in front of every batch."""

    def __init__(self, network: nn.Module, inputs: int):
        super().__init__()
        self.network = network
        noise = random.normal(random.keys(random.seed_of("reference"), torch.arange(REFERENCE)), inputs)
        self.register_buffer("noise", noise, persistent=False)

    def forward(self, z: Tensor) -> Tensor:
        """z (B, inputs) -> what the network makes of it, (B, ...)."""
        made: Tensor = self.network(torch.cat([self.get_buffer("noise"), z]))
        return made[REFERENCE:]


def layers(sizes: Sequence[int], linear: Callable[[int, int], nn.Module], after: Callable[[int], list[nn.Module]]) -> list[nn.Module]:
    """Fully connected layers, each with what comes after a layer of its width."""
    return [part for first, second in pairwise(sizes) for part in (linear(first, second), *after(second))]


def normalised(norm: Norm, channels: int, images: bool = False) -> list[nn.Module]:
    """The layer of that name, if any."""
    if norm == "batch":
        return [nn.BatchNorm2d(channels) if images else nn.BatchNorm1d(channels)]
    return [VirtualBatchNorm(channels, REFERENCE)] if norm == "virtual" else []


class GAN(GANBase):
    def __init__(self, config: GANConfig):
        c = self.check(config)
        super().__init__(c.latent, c.classes, c.conditional)
        self.config = config
        self.separable = c.norm != "batch" and not c.minibatch_kernels
        body = layers(
            (self.inputs, *c.generator), partial(nn.Linear, bias=c.norm != "batch"), lambda size: [*normalised(c.norm, size), nn.ReLU()]
        )
        last = nn.Linear((self.inputs, *c.generator)[-1], c.features)
        network = nn.Sequential(*body, last)
        self.generator = WithReferenceBatch(network, self.inputs) if c.norm == "virtual" else network
        linear: Callable[[int, int], nn.Module] = WeightNormLinear if c.weight_norm else nn.Linear
        sees = layers(
            (c.features, *c.discriminator), linear, lambda size: [nn.LeakyReLU(0.2), Dropout(c.dropout), Noise(c.noise[1])]
        )  # fmt: skip
        width = (c.features, *c.discriminator)[-1]
        head = DiscriminatorHead(
            width,
            classes=c.classes,
            conditional=c.conditional,
            classifier=c.classifier,
            kernels=c.minibatch_kernels,
            weight_norm=c.weight_norm,
        )
        self.discriminator = Discriminator(nn.Sequential(nn.Flatten(), Noise(c.noise[0]), *sees), head)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                init.NAMED[c.weight_init](module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    @staticmethod
    def check(config: GANConfig) -> GANConfig:
        check_sizes(config, features=1, latent=1, classes=0, minibatch_kernels=0)
        check_shares(config, "dropout")
        check_shape(config)
        for name in ("generator", "discriminator"):
            if min(getattr(config, name), default=1) < 1:
                raise ConfigError(f"--model.{name}: widths of layers must be at least 1, not {getattr(config, name)}")
        if not all(0 <= deviation < float("inf") for deviation in config.noise):
            raise ConfigError(f"--model.noise must be two deviations of at least 0, not {config.noise}")
        return config

    def forward(self, z: Tensor) -> Tensor:
        """Noise, and beside it the class of a conditional model -> examples (B, *image), in (0, 1) unless the output is linear."""
        made = super().forward(z).float()
        made = made.sigmoid() if self.config.output == "sigmoid" else made
        return made.view(-1, *(self.config.image or (self.config.features,)))


TINY = GANConfig(latent=4, generator=(16,), discriminator=(16,))
"""Small enough for a test."""
PRESETS = {"tiny": TINY, "mnist": GANConfig(features=784, image=(1, 28, 28), latent=100)}
