"""Bidirectional GAN (Donahue et al., 2016, arXiv:1605.09782; Dumoulin et al., 2016, arXiv:1606.00704).

An encoder E is learned beside the generator G: the discriminator sees pairs, (x, E(x)) of real examples and (G(z), z) of generated
ones. Where it cannot tell them apart, E is the inverse of G.
Shapes: B batch, X flattened data, Z latent.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from torch import Tensor, nn

from weft.core import random
from weft.core.errors import ConfigError
from weft.models.base import ModelConfig, check_sizes
from weft.models.generative.adversaries import check_shape
from weft.models.mlp import Initial
from weft.nn import init


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
    """Whether hidden layers are normalised over the batch, without scales and shifts of their own; not those that read an example."""
    weight_init: Initial = "normal"
    """Initialisation of the weights."""

    def build(self) -> BiGAN:
        return BiGAN(self)


class BiGAN(nn.Module):
    def __init__(self, config: BiGANConfig):
        super().__init__()
        self.config = c = config
        check_sizes(c, features=1, latent=1)
        check_shape(c)
        if len(c.hidden) < 2 or min(c.hidden) < 1:
            raise ConfigError(f"--model.hidden: at least two layers of at least 1, as a code enters at the second, not {c.hidden}")
        self.separable = not c.batch_norm
        self.generator = Perceptron((c.latent, *c.hidden, c.features), nn.ReLU(), c.batch_norm, beside=c.latent, first=True)
        self.encoder = Perceptron((c.features, *c.hidden, c.latent), nn.LeakyReLU(0.2), c.batch_norm)
        self.discriminator = Perceptron((c.features, *c.hidden, 1), nn.LeakyReLU(0.2), c.batch_norm, beside=c.latent)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                init.NAMED[c.weight_init](module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        nn.init.zeros_(self.discriminator.last.weight)  # it begins undecided

    def to_data(self, z: Tensor) -> Tensor:
        """z (B, Z) in [-1, 1] -> G(z), values in (0, 1), (B, *image)."""
        pixels: Tensor = self.generator(z, z).float().sigmoid()
        return pixels.view(-1, *(self.config.image or (self.config.features,)))

    def to_latent(self, x: Tensor) -> Tensor:
        """x (B, ...) -> E(x) (B, Z), in (-1, 1) as the codes that are drawn."""
        code: Tensor = self.encoder(x.flatten(1)).float().tanh()
        return code

    def features(self, x: Tensor) -> Tensor:
        """x (B, ...) -> the encoder's last hidden layer (B, F), by which Donahue et al. look for neighbours."""
        found: Tensor = self.encoder.features(x.flatten(1))
        return found

    def latents(self, key: Tensor) -> Tensor:
        """key (B,) -> a code of each, even in [-1, 1], (B, Z)."""
        return 2 * random.uniform(random.fold(key, "noise"), self.config.latent) - 1

    def sample(self, key: Tensor) -> Tensor:
        """key (B,) -> one example per key, (B, *image)."""
        return self.to_data(self.latents(key))

    def discriminate_pair(self, x: Tensor, z: Tensor) -> Tensor:
        """x (B, ...), z (B, Z) -> log-odds that x is real and z its code, not z noise and x made of it, (B,)."""
        odds: Tensor = self.discriminator(x.flatten(1), z).float()
        return odds.squeeze(1)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, ...) -> its reconstruction G(E(x)), in the shape of x."""
        return self.to_data(self.to_latent(x)).view_as(x)


class Perceptron(nn.Module):
    """Fully connected layers, as in the authors' code: the hidden ones after the first read a code beside what the one before gives."""

    def __init__(self, sizes: tuple[int, ...], activation: nn.Module, batch_norm: bool, beside: int = 0, first: bool = False):
        """first: whether the first layer is normalised too; one that reads an example is not, so that this keeps its scale."""
        super().__init__()
        self.activation, pairs, bias = activation, list(pairwise(sizes[:-1])), not batch_norm
        self.hidden = nn.ModuleList(nn.Linear(inputs, outputs, bias=bias) for inputs, outputs in pairs)
        self.beside = nn.ModuleList(nn.Linear(beside, outputs, bias=False) for _, outputs in pairs[1:] if beside)
        normed = [batch_norm and (first or number > 0) for number in range(len(pairs))]
        self.norms = nn.ModuleList(
            nn.BatchNorm1d(outputs, affine=False) if norm else nn.Identity() for norm, (_, outputs) in zip(normed, pairs, strict=True)
        )
        self.last = nn.Linear(sizes[-2], sizes[-1], bias=bias)

    def features(self, x: Tensor, code: Tensor | None = None) -> Tensor:
        """x (B, inputs), code (B, Z) -> the last hidden layer (B, F)."""
        for number, (layer, norm) in enumerate(zip(self.hidden, self.norms, strict=True)):
            x = layer(x) if code is None or number == 0 else layer(x) + self.beside[number - 1](code)
            x = self.activation(norm(x))
        return x

    def forward(self, x: Tensor, code: Tensor | None = None) -> Tensor:
        found: Tensor = self.last(self.features(x, code))
        return found


TINY = BiGANConfig(latent=4, hidden=(16, 16))
"""Small enough for a test."""
PRESETS = {"tiny": TINY, "mnist": BiGANConfig(features=784, image=(1, 28, 28))}
