"""Generative adversarial network of two perceptrons (Goodfellow et al., 2014, arXiv:1406.2661).

The generator turns noise into an example; the discriminator gives the log-odds that an example is real.
Shapes: B batch, X flattened data, Z latent.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from weft import random
from weft.models.base import ModelConfig
from weft.models.mlp import Initial, Layers


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
    discriminator: tuple[int, ...] = (256, 256)
    """Widths of the discriminator's hidden layers, each followed by a leaky ReLU."""
    dropout: float = 0.0
    """Share of each hidden layer of the discriminator zeroed in training."""
    initial: Initial = "he"
    """How weights are drawn."""

    def build(self) -> GAN:
        return GAN(self)


class GAN(nn.Module):
    def __init__(self, config: GANConfig):
        super().__init__()
        c = self.config = config
        self.generator = Layers((c.latent, *c.generator, c.features), initial=c.initial)
        self.discriminator = Layers((c.features, *c.discriminator, 1), activation="leaky_relu", dropout=c.dropout, initial=c.initial)

    def forward(self, z: Tensor) -> Tensor:
        """z (B, Z) -> examples with values in (0, 1), (B, *image)."""
        pixels: Tensor = self.generator(z).float().sigmoid()
        return pixels.view(-1, *(self.config.image or (self.config.features,)))

    def sample(self, key: Tensor) -> Tensor:
        """key (B,) -> one example per key from noise z ~ N(0, I), (B, *image)."""
        examples: Tensor = self(random.normal(random.fold(key, "noise"), self.config.latent))
        return examples

    def judge(self, x: Tensor) -> Tensor:
        """x (B, ...) -> log-odds that each is real, (B,)."""
        odds: Tensor = self.discriminator(x.flatten(1)).float()
        return odds.squeeze(1)


TINY = GANConfig(latent=4, generator=(16,), discriminator=(16,))
"""Small enough for a test."""
PRESETS = {"tiny": TINY, "mnist": GANConfig(features=784, image=(1, 28, 28), latent=100)}
