"""RealNVP (Dinh et al., 2017, arXiv:1605.08803) on vectors: affine couplings that keep one half of the numbers, then the other.

Both directions are one pass. For images see realnvp_images.py.
Shapes: B batch, X numbers of an example.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from weft.models.base import ModelConfig, check_sizes
from weft.models.generative.flow import Flow, chain
from weft.models.mlp import Layers
from weft.nn.bijections import AffineCoupling, Bijection, ElementwiseAffine, half_mask


@dataclass(frozen=True, kw_only=True)
class RealNVPConfig(ModelConfig):
    features: int = 0
    """Size X of one flattened example; 0 takes it from the data."""
    image: tuple[int, ...] = ()
    """Shape of a sample, (channels, height, width); () takes it from the data, or leaves samples flat."""
    layers: int = 8
    """Number of couplings."""
    hidden: tuple[int, ...] = (64, 64)
    """Widths of the hidden layers of each coupling's network."""
    margin: float = 0.0
    """For data in [0, 1]: a logit comes first, of 1 - 2 margin of that range; 0 for data on the whole line."""

    def build(self) -> RealNVP:
        return RealNVP(self)


class RealNVP(Flow):
    """One pass to the density, one pass to a sample."""

    def __init__(self, config: RealNVPConfig):
        check_sizes(config, features=1, layers=1)
        size = config.features
        layers: list[Bijection] = []
        for number in range(config.layers):
            network = Layers((size, *config.hidden, 2 * size))
            nn.init.zeros_(network.head.weight)
            layers += [AffineCoupling(half_mask(size, number % 2), network), ElementwiseAffine(size)]
        super().__init__(chain(layers, config.margin), (size,), config.image or (size,))
        self.config = config


TINY = RealNVPConfig(layers=2, hidden=(16,))
"""Small enough for a test."""
PRESETS = {"tiny": TINY, "mnist": RealNVPConfig(features=784, image=(1, 28, 28), layers=10, hidden=(1024,), margin=1e-6)}
