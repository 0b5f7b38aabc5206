"""Attention over a handful of keys, in double precision: what the studies of one and several heads share.

Keys k_i, values v_i, a query q: the weights are softmax(k_i · q), without a scale, and the output c is the sum of the values
under them. Keys (or their means) are orthonormal, and so are the values, which makes every distance a simple formula.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from weft.core.config import Config
from weft.core.errors import ConfigError
from weft.runs.record import Points

ROUNDING = torch.finfo(torch.float64).eps


@dataclass(frozen=True, kw_only=True)
class Problem(Config):
    beta: float = 50.0
    """Length of the query; figures by β go from 0 to it."""
    width: int = 16
    """Dimensions of keys, values and queries."""
    seed: int = 1
    """Of the directions and of everything drawn."""

    def bases(self, keys: int) -> tuple[Tensor, Tensor, torch.Generator]:
        """Orthonormal keys and orthonormal values, each (keys, width), and the generator that drew them."""
        if not 2 <= keys <= self.width:
            raise ConfigError(f"keys: expected from 2 to {self.width} (the width, for there are no more right angles), found {keys}")
        if self.beta <= 0:
            raise ConfigError(f"beta: expected more than 0, found {self.beta:g}")
        generator = torch.Generator().manual_seed(self.seed)
        drawn = normal(generator, 2, self.width, keys)
        directions, values = torch.linalg.qr(drawn)[0].mT
        return directions, values, generator

    def betas(self, number: int) -> Tensor:
        """Evenly from 0 to the largest."""
        return torch.linspace(0, self.beta, number, dtype=torch.float64)


@dataclass(frozen=True, kw_only=True)
class RandomKeys(Problem):
    keys: int = 8
    """Number of keys and values; the query asks for the first two, a and b."""
    noise: float = 1e-6
    """Variance of a key in every direction."""
    draws: int = 10_000
    """Sets of keys drawn."""

    def draw(self, means: Tensor, generator: torch.Generator) -> Tensor:
        """Keys (draws, keys, width) around their means."""
        if self.noise < 0 or self.draws < 2:
            raise ConfigError(f"expected noise ≥ 0 and draws ≥ 2, found {self.noise:g} and {self.draws}")
        return means + math.sqrt(self.noise) * normal(generator, self.draws, *means.shape)


def normal(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def attend(keys: Tensor, values: Tensor, queries: Tensor) -> tuple[Tensor, Tensor]:
    """Weights (..., queries, keys) and outputs (..., queries, width) of keys (..., keys, width) and queries (queries, width)."""
    weights = torch.softmax(queries @ keys.mT, -1)
    return weights, weights @ values


def power(error: Tensor) -> Tensor:
    """log10 of an error, no lower than the rounding of the numbers it was computed with."""
    return error.clamp_min(ROUNDING).log10()


def points(x: Tensor, y: Tensor) -> Points:
    """The points of a curve."""
    return list(zip(x.tolist(), y.tolist()))


def listed(texts: Iterable[str]) -> str:
    """ "a, b and c"."""
    *first, last = texts
    return f"{', '.join(first)} and {last}" if first else last
