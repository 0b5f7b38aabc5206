"""Masked autoregressive flow (Papamakarios et al., 2017, arXiv:1705.07057).

Layers z_i = (x_i - mean_i) exp(-scale_i), whose mean and scale are functions of the x before i, each in the reverse order of the
one before it. From x to z, and so to the density, is one pass; a sample takes X passes per layer.

Shapes: B batch, X numbers of an example.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.core.errors import ConfigError
from weft.models.base import ModelConfig, check_sizes
from weft.models.generative.flow import Flow, chain
from weft.nn.bijections import Bijection, ElementwiseAffine, ReversePermutation
from weft.nn.made import Autoregressive


@dataclass(frozen=True, kw_only=True)
class MAFConfig(ModelConfig):
    features: int = 0
    """Size X of one flattened example; 0 takes it from the data."""
    image: tuple[int, ...] = ()
    """Shape of a sample, (channels, height, width); () takes it from the data, or leaves samples flat."""
    layers: int = 5
    """Number of autoregressive layers."""
    hidden: tuple[int, ...] = (64, 64)
    """Widths of the hidden layers of each network."""
    margin: float = 0.0
    """For data in [0, 1]: a logit comes first, of 1 - 2 margin of that range; 0 for data on the whole line."""

    def build(self) -> MAF:
        return MAF(self)


class MAF(Flow):
    """One pass to the density, X passes to a sample."""

    def __init__(self, config: MAFConfig):
        check_sizes(config, features=1, layers=1)
        size = (config.features,)
        super().__init__(chain(autoregressive(config.features, config.layers, config.hidden), config.margin), size, config.image or size)
        self.config = config


def autoregressive(features: int, layers: int, hidden: tuple[int, ...]) -> list[Bijection]:
    """So many autoregressive layers, the order of the numbers reversed between them."""
    if min(hidden, default=1) < 1:
        raise ConfigError(f"--model.hidden: every width must be at least 1, not {hidden}")
    found: list[Bijection] = []
    for number in range(layers):
        found += [ReversePermutation()] if number else []
        found += [Autoregressive(features, hidden), ElementwiseAffine(features)]
    return found


TINY = MAFConfig(layers=2, hidden=(16,))
"""Small enough for a test."""
PRESETS = {"tiny": TINY, "mnist": MAFConfig(features=784, image=(1, 28, 28), layers=5, hidden=(1024, 1024), margin=1e-6)}
