"""BLEU (Papineni et al., 2002) from counts that add up over any number of sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

ORDER = 4


def statistics(candidate: Sequence[object], reference: Sequence[object]) -> Tensor:
    """Matches and number of n-grams for n = 1 … 4, and both lengths: (10,)."""
    found = []
    for n in range(1, ORDER + 1):
        given, wanted = (Counter(tuple(side[i : i + n]) for i in range(len(side) - n + 1)) for side in (candidate, reference))
        found += [sum((given & wanted).values()), sum(given.values())]
    return torch.tensor([*found, len(candidate), len(reference)], dtype=torch.float64)


def bleu(sums: Tensor, smooth: bool = False) -> float:
    """Corpus BLEU in percent from summed statistics (10,); 0 where an order has no match, unless smoothed as sacrebleu does by default."""
    matches, totals = sums[0:8:2], sums[1:8:2]
    matches = smoothed(matches, totals) if smooth and float(matches[0]) else matches
    if not bool((matches > 0).all()):
        return 0.0
    brevity = min(0.0, 1 - float(sums[9] / sums[8]))
    return float(100 * torch.exp((matches / totals).log().mean() + brevity))


def smoothed(matches: Tensor, totals: Tensor) -> Tensor:
    """Matches of each order (4,): the first without any counts as half a match, the next as a quarter, and so on (the exponential
    smoothing of mteval and sacrebleu); one longer than every candidate keeps none."""
    found, share = matches.clone(), 1.0
    for order in range(ORDER):
        if float(totals[order]) and not float(found[order]):
            share /= 2
            found[order] = share
    return found


def sentence_bleu(candidate: Sequence[object], reference: Sequence[object]) -> float:
    """BLEU of one sentence in percent, smoothed; orders longer than the candidate are left out."""
    sums = statistics(candidate, reference)
    matches, totals = sums[0:8:2], sums[1:8:2]
    if not float(matches[0]):
        return 0.0
    matches, there = smoothed(matches, totals), totals > 0
    brevity = min(0.0, 1 - float(sums[9] / sums[8]))
    return float(100 * torch.exp((matches[there] / totals[there]).log().mean() + brevity))
