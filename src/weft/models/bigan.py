"""Bidirectional GAN (Donahue et al., 2016, arXiv:1605.09782; Dumoulin et al., 2016, arXiv:1606.00704).

An encoder E is learned beside the generator G: the discriminator sees pairs, (x, E(x)) of real examples and (G(z), z) of generated
ones. Where it cannot tell them apart, E is the inverse of G.
Shapes: B batch, X flattened data, Z latent.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from weft import random
from weft.errors import ConfigError
from weft.layers import init
from weft.models.adversaries import check_shape
from weft.models.base import ModelConfig, check_sizes
from weft.models.mlp import Initial


@dataclass(frozen=True, kw_only=True)
class BiGANConfig(ModelConfig):
    features: int = 0
    """Size X of one flattened example; 0 takes it from the data."""
    image: tuple[int, ...] = ()
    """Shape of a sample, (channels, height, width); () takes it from the data, or leaves samples flat."""
    latent: int = 50
    """Size Z of the code."""
    hidden: tuple[int, ...] = (1024, 1024)
    """Widths of the hidden layers of each of the three networks."""
    batch_norm: bool = True
    """Whether hidden layers are normalised over the batch, all of the generator, and all but those that read an example."""
    initial: Initial = "normal"
    """How weights are drawn."""

    def build(self) -> BiGAN:
        return BiGAN(self)


class BiGAN(nn.Module):
    def __init__(self, config: BiGANConfig):
        super().__init__()
        self.config = c = config
        check_sizes(c, features=1, latent=1)
        check_shape(c)
        if min(c.hidden, default=1) < 1:
            raise ConfigError(f"--model.hidden: widths of layers must be at least 1, not {c.hidden}")
        self.separable = not c.batch_norm
        self.generator = perceptron((c.latent, *c.hidden, c.features), nn.ReLU(), c.batch_norm, first=True)
        self.encoder = perceptron((c.features, *c.hidden, c.latent), nn.LeakyReLU(0.2), c.batch_norm)
        self.discriminator = perceptron((c.features + c.latent, *c.hidden, 1), nn.LeakyReLU(0.2), c.batch_norm)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                init.NAMED[c.initial](module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def to_data(self, z: Tensor) -> Tensor:
        """z (B, Z) in [-1, 1] -> G(z), values in (0, 1), (B, *image)."""
        pixels: Tensor = self.generator(z).float().sigmoid()
        return pixels.view(-1, *(self.config.image or (self.config.features,)))

    def to_latent(self, x: Tensor) -> Tensor:
        """x (B, ...) -> E(x) (B, Z), in (-1, 1) as the codes that are drawn."""
        code: Tensor = self.encoder[-1](self.features(x)).float().tanh()
        return code

    def features(self, x: Tensor) -> Tensor:
        """x (B, ...) -> the encoder's last hidden layer (B, F), by which Donahue et al. look for neighbours."""
        found: Tensor = self.encoder[:-1](2 * x.flatten(1) - 1)
        return found

    def latents(self, key: Tensor) -> Tensor:
        """key (B,) -> a code of each, even in [-1, 1], (B, Z)."""
        return 2 * random.uniform(random.fold(key, "noise"), self.config.latent) - 1

    def sample(self, key: Tensor) -> Tensor:
        """key (B,) -> one example per key, (B, *image)."""
        return self.to_data(self.latents(key))

    def judge_pair(self, x: Tensor, z: Tensor) -> Tensor:
        """x (B, ...), z (B, Z) -> log-odds that x is real and z its code, not z noise and x made of it, (B,)."""
        odds: Tensor = self.discriminator(torch.cat([2 * x.flatten(1) - 1, z], dim=1)).float()
        return odds.squeeze(1)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, ...) -> its reconstruction G(E(x)), in the shape of x."""
        return self.to_data(self.to_latent(x)).view_as(x)


def perceptron(sizes: tuple[int, ...], activation: nn.Module, batch_norm: bool, first: bool = False) -> nn.Sequential:
    """Fully connected layers; hidden ones are normalised, but the first only where asked for, so that an example keeps its scale."""
    parts: list[nn.Module] = []
    for number, (inputs, outputs) in enumerate(pairwise(sizes)):
        last = number == len(sizes) - 2
        norm = batch_norm and (first or number > 0) and not last
        parts += [nn.Linear(inputs, outputs, bias=not norm), *([nn.BatchNorm1d(outputs)] if norm else [])]
        parts += [] if last else [activation]
    return nn.Sequential(*parts)


TINY = BiGANConfig(latent=4, hidden=(16, 16))
"""Small enough for a test."""
PRESETS = {"tiny": TINY, "mnist": BiGANConfig(features=784, image=(1, 28, 28))}
