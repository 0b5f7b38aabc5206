"""Inverse autoregressive flow (Kingma et al., 2016, arXiv:1606.04934): the network of a masked autoregressive flow run the other way.

x_i = (z_i - mean_i) exp(-scale_i), whose mean and scale are functions of the z before i: from z to x is one pass, and the density of
what was drawn is known on the way. The density of any other x takes X passes per layer, as its z has to be found first.

Shapes: B batch, X numbers of an example.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.models.base import ModelConfig, check_sizes
from weft.models.generative.flow import Flow, chain
from weft.models.generative.maf import autoregressive
from weft.nn.bijections import Chain, Inverse


@dataclass(frozen=True, kw_only=True)
class IAFConfig(ModelConfig):
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

    def build(self) -> IAF:
        return IAF(self)


class IAF(Flow):
    """One pass to a sample and its density, X passes to the density of anything else."""

    def __init__(self, config: IAFConfig):
        check_sizes(config, features=1, layers=1)
        size = (config.features,)
        backwards = Inverse(Chain(autoregressive(config.features, config.layers, config.hidden)))
        super().__init__(chain([backwards], config.margin), size, config.image or size)
        self.config = config


TINY = IAFConfig(layers=2, hidden=(16,))
"""Small enough for a test."""
PRESETS = {"tiny": TINY}
