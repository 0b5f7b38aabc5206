"""Gibbs sampling (Geman & Geman, 1984): draw a block of units from its distribution given all others, block after block.

A sweep visits every block once. Each visit leaves p(x) as it is, so a chain that can reach every state ends in p(x), whatever
it started from. All noise comes from keys, one per chain, so that a chain does not depend on its neighbours in the batch.

Shapes: B chains, N units.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from weft.core import random

Chance = Callable[[Tensor, slice], Tensor]
"""State (B, N) and a block -> the chance (B, size of the block) that each of its units has the higher of its two values."""


class Conditionals(Protocol):
    """Says how a block of two-valued units is distributed given all others; units of a block do not depend on each other."""

    values: tuple[float, float]
    """The lower and the higher value of a unit."""
    blocks: tuple[slice, ...]
    """Blocks that together hold every unit once."""

    def conditional(self, evidence: Tensor | None = None) -> Chance:
        """evidence (B, X): log-odds that what was seen adds to each of the first X units."""


def sweep(chance: Chance, state: Tensor, key: Tensor, blocks: Sequence[slice], values: tuple[float, float]) -> Tensor:
    """Draw every block of state (B, N) anew, in place -> the chances (B, N) by which that was done; 0 for units of no block."""
    low, high = values
    noise, chances = random.uniform(key, state.size(1)), torch.zeros_like(state)
    for block in blocks:
        chances[:, block] = chance(state, block)
        state[:, block] = low + (high - low) * (noise[:, block] < chances[:, block]).to(state.dtype)
    return chances


@torch.no_grad()
def gibbs(
    model: Conditionals, state: Tensor, key: Tensor, sweeps: int, evidence: Tensor | None = None, blocks: Sequence[slice] | None = None
) -> Tensor:
    """Sweep from state (B, N) with the noise of key (B,) -> the last state (B, N). Units outside `blocks` keep their values."""
    chance, state = model.conditional(evidence), state.clone()
    for number in range(sweeps):
        sweep(chance, state, random.fold(key, number), model.blocks if blocks is None else blocks, model.values)
    return state


@torch.no_grad()
def marginals(model: Conditionals, state: Tensor, key: Tensor, sweeps: int, evidence: Tensor | None = None) -> Tensor:
    """The chance (B, N) of each unit's higher value, averaged over the second half of the sweeps.

    An average of chances varies less than one of the draws themselves (Rao and Blackwell).
    """
    chance, state = model.conditional(evidence), state.clone()
    total, skipped = torch.zeros_like(state), sweeps // 2
    for number in range(sweeps):
        found = sweep(chance, state, random.fold(key, number), model.blocks, model.values)
        if number >= skipped:
            total += found
    return total / (sweeps - skipped)
