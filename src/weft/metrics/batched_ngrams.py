"""BLEU of many sentences at once, on the device they are on: what `ngrams` computes, without a loop over sentences or n-grams.

Shapes: R candidates, N tokens of the longest, M of the longest reference.
"""

from __future__ import annotations

import torch
from torch import Tensor

from weft.metrics.ngrams import ORDER


def statistics(candidate: Tensor, sizes: Tensor, reference: Tensor, reference_sizes: Tensor) -> Tensor:
    """Tokens (R, N) and (R, M) with their numbers (R,) -> matches and number of n-grams for n = 1 … 4, and both lengths (R, 10)."""
    n, m = candidate.size(1), reference.size(1)
    in_candidate = torch.arange(n, device=candidate.device) < sizes[:, None]
    in_reference = torch.arange(m, device=candidate.device) < reference_sizes[:, None]
    same = (candidate[:, :, None] == reference[:, None]) & in_candidate[:, :, None] & in_reference[:, None]  # (R, N, M)
    own = (candidate[:, :, None] == candidate[:, None]) & in_candidate[:, :, None] & in_candidate[:, None]  # (R, N, N)
    first_same, first_own, found = same, own, []
    for order in range(1, ORDER + 1):
        if order > 1:  # two n-grams are the same where their first tokens are, and the (n - 1)-grams behind these
            same = first_same & shifted(same)
            own = first_own & shifted(own)
        earlier = own.tril(-1).sum(2)  # n-grams of the candidate that are this one and stand before it
        found += [(earlier < same.sum(2)).sum(1), (sizes - order + 1).clamp(min=0)]
    return torch.stack([*found, sizes, reference_sizes], 1).double()


def shifted(equal: Tensor) -> Tensor:
    """equal (R, N, M) -> whether the next positions of both are equal, False behind the last."""
    moved = torch.zeros_like(equal)
    moved[:, :-1, :-1] = equal[:, 1:, 1:]
    return moved


def sentence_bleu(sums: Tensor) -> Tensor:
    """Statistics (..., 10) -> smoothed BLEU of each sentence in percent, float64 (...)."""
    matches, totals = sums[..., 0:8:2], sums[..., 1:8:2]
    there = totals > 0
    without = there & (matches == 0)
    smoothed = torch.where(without, 0.5 ** without.cumsum(-1), matches)  # half a match, then a quarter, and so on
    logs = torch.where(there, (smoothed / totals.clamp(min=1)).clamp(min=1e-300).log(), 0.0)
    brevity = (1 - sums[..., 9] / sums[..., 8].clamp(min=1)).clamp(max=0.0)
    found = 100 * (logs.sum(-1) / there.sum(-1).clamp(min=1) + brevity).exp()
    return found.masked_fill(matches[..., 0] == 0, 0.0)
