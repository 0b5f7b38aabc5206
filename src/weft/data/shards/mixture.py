"""Several sources in given proportions: which of them each draw takes is a function of its number alone.

Draws come in blocks, in each of which every source has exactly its share, in an order of the block's own. So the proportions hold
for any run longer than a block, a run continues anywhere at no cost, and how often a run sees each source is known beforehand,
as in Table 2.2 of GPT-3 (Brown et al., 2020, arXiv:2005.14165).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.core import random

BLOCK = 1 << 16


def proportions(weights: Sequence[float]) -> np.ndarray:
    """Weights above 0, however large or small, as parts of 1."""
    given = np.asarray(weights, dtype=np.float64)
    near_one = np.ldexp(given, -np.frexp(given.max())[1])  # by a power of two, so that nothing is rounded
    parts: np.ndarray = near_one / near_one.sum()
    return parts


def apportion(weights: Sequence[float], number: int = BLOCK) -> np.ndarray:
    """Whole numbers in the proportion of the weights that add up to `number`, at least 1 each: largest remainders are rounded up."""
    exact = proportions(weights) * (number - len(weights))
    shares: np.ndarray = 1 + np.floor(exact).astype(np.int64)
    rest = number - int(shares.sum())
    shares[np.argsort(shares - exact, kind="stable")[:rest]] += 1
    return shares


class Mixture:
    """Sources with weights, which need not add up to 1."""

    def __init__(self, weights: Sequence[float]):
        self.shares = apportion(weights)
        self.ends = np.cumsum(self.shares)

    def draws(self, first: int, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """For the draws first, first + 1, …: the source of each (N,), and how often that was drawn before (N,)."""
        number = np.arange(first, first + count, dtype=np.int64)
        if len(self.shares) == 1:
            return np.zeros(count, dtype=np.int64), number
        source, turn = np.empty_like(number), np.empty_like(number)
        for block in range(first // BLOCK, (first + count - 1) // BLOCK + 1):
            own = number // BLOCK == block
            sources, turns = self.block(block, seed)
            source[own], turn[own] = sources[number[own] % BLOCK], turns[number[own] % BLOCK]
        return source, turn

    def block(self, block: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """As `draws`, of all draws of a block."""
        place = random.permute(np.arange(BLOCK), BLOCK, random.seed_of(seed, "mixture", block))
        source = np.searchsorted(self.ends, place, side="right")
        turn = np.empty(BLOCK, dtype=np.int64)
        turn[np.argsort(source, kind="stable")] = np.arange(BLOCK)  # counted source by source
        return source, turn - (self.ends - self.shares)[source] + block * self.shares[source]

    def counts(self, draws: int, seed: int) -> np.ndarray:
        """How often each source is drawn in so many draws from the first on."""
        blocks, rest = divmod(draws, BLOCK)
        source, _ = self.draws(blocks * BLOCK, rest, seed)
        counts: np.ndarray = blocks * self.shares + np.bincount(source, minlength=len(self.shares))
        return counts
