"""What a model of two-valued units makes of vectors of which a part is missing, or a share turned over, by Gibbs sampling.

What was seen of a unit adds log-odds to its conditional: none where nothing was seen, beyond any doubt where it is known, and
±log((1 - r) / r) where it was seen through a channel that turns a share r of the units over.

Shapes: B batch, X visible units, N units with the hidden ones.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from weft.core import random
from weft.core.errors import ConfigError
from weft.sampling.gibbs import Conditionals, marginals

SURE = 1e4
"""Log-odds of what is known; larger than any field that a model gives a unit."""


def inpaint(model: Conditionals, x: Tensor, known: Tensor, key: Tensor | None, sweeps: int) -> Tensor:
    """x (B, X) of 0 and 1, given where known (B, X) is true -> the chance that each other unit is 1, the known ones as they are."""
    chances = denoised(model, x, torch.where(known, (2 * x - 1) * SURE, 0.0), known, key, sweeps)
    return torch.where(known, x, chances)


def denoise(model: Conditionals, x: Tensor, flipped: float, key: Tensor | None, sweeps: int) -> Tensor:
    """x (B, X) of 0 and 1, of which a share was turned over by chance -> the chance (B, X) that each unit was 1."""
    if not 0 < flipped < 1:
        raise ConfigError(f"the share of units turned over must lie between 0 and 1, not {flipped}")
    evidence = (2 * x - 1) * math.log((1 - flipped) / flipped)
    return denoised(model, x, evidence, torch.ones_like(x, dtype=torch.bool), key, sweeps)


def numbered(x: Tensor) -> Tensor:
    """Keys (B,) for whoever does not mind which: always the same."""
    return random.keys(0, torch.arange(len(x))).to(x.device)


def denoised(model: Conditionals, x: Tensor, evidence: Tensor, seen: Tensor, key: Tensor | None, sweeps: int) -> Tensor:
    """The chance (B, X) of 1 given the evidence (B, X), by a chain that starts at what was seen, and elsewhere at noise."""
    key = numbered(x) if key is None else key
    low, high = model.values
    units = max(block.stop for block in model.blocks)
    start = (random.uniform(random.fold(key, "start"), units) < 0.5).to(x.dtype)  # (B, N)
    start[:, : x.size(1)] = torch.where(seen, x, start[:, : x.size(1)])
    return marginals(model, low + (high - low) * start, random.fold(key, "sweeps"), sweeps, evidence)[:, : x.size(1)]
