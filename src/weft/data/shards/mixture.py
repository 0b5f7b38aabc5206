"""Weighted mixture of sources: the source of each draw is a function of the draw number alone.

Draws come in blocks, in each of which every source has exactly its share, shuffled anew. So the proportions hold
for any run longer than a block, a run resumes anywhere at no cost, and the epochs over each source are known beforehand,
as in Table 2.2 of GPT-3 (Brown et al., 2020, arXiv:2005.14165).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.core import random

BLOCK = 1 << 16


def proportions(weights: Sequence[float]) -> np.ndarray:
    """Positive weights, however large or small, normalised to a sum of 1."""
    values = np.asarray(weights, dtype=np.float64)
    scaled = np.ldexp(values, -np.frexp(values.max())[1])  # by a power of two, so that nothing is rounded
    shares: np.ndarray = scaled / scaled.sum()
    return shares


def apportion(weights: Sequence[float], number: int = BLOCK) -> np.ndarray:
    """Whole numbers in the proportion of the weights that add up to `number`, at least 1 each: largest remainders are rounded up."""
    exact = proportions(weights) * (number - len(weights))
    shares: np.ndarray = 1 + np.floor(exact).astype(np.int64)
    remainder = number - int(shares.sum())
    shares[np.argsort(shares - exact, kind="stable")[:remainder]] += 1
    return shares


class Mixture:
    """Sources with weights, which need not add up to 1."""

    def __init__(self, weights: Sequence[float]):
        self.shares = apportion(weights)
        self.ends = np.cumsum(self.shares)

    def draws(self, first: int, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """For the draws first, first + 1, …: the source of each (N,), and the number of earlier draws of it (N,)."""
        number = np.arange(first, first + count, dtype=np.int64)
        if len(self.shares) == 1:
            return np.zeros(count, dtype=np.int64), number
        source, turn = np.empty_like(number), np.empty_like(number)
        for block in range(first // BLOCK, (first + count - 1) // BLOCK + 1):
            in_block = number // BLOCK == block
            sources, turns = self.block(block, seed)
            source[in_block], turn[in_block] = sources[number[in_block] % BLOCK], turns[number[in_block] % BLOCK]
        return source, turn

    def block(self, block: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """As `draws`, for all draws of a block."""
        slot = random.permute(np.arange(BLOCK), BLOCK, random.seed_of(seed, "mixture", block))
        source = np.searchsorted(self.ends, slot, side="right")
        turn = np.empty(BLOCK, dtype=np.int64)
        turn[np.argsort(source, kind="stable")] = np.arange(BLOCK)  # counted source by source
        return source, turn - (self.ends - self.shares)[source] + block * self.shares[source]

    def counts(self, draws: int, seed: int) -> np.ndarray:
        """How often each source occurs in the first `draws` draws."""
        blocks, remainder = divmod(draws, BLOCK)
        source, _ = self.draws(blocks * BLOCK, remainder, seed)
        counts: np.ndarray = blocks * self.shares + np.bincount(source, minlength=len(self.shares))
        return counts
