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


def bleu(sums: Tensor) -> float:
    """Corpus BLEU in percent from summed statistics (10,); 0 where an order has no match."""
    matches, totals = sums[0:8:2], sums[1:8:2]
    if not bool((matches > 0).all()):
        return 0.0
    brevity = min(0.0, 1 - float(sums[9] / sums[8]))
    return float(100 * torch.exp((matches / totals).log().mean() + brevity))


def sentence_bleu(candidate: Sequence[object], reference: Sequence[object]) -> float:
    """BLEU of one sentence in percent. An order without a match counts as half a match, the next such as a quarter, and so on (the
    exponential smoothing of mteval and sacrebleu); orders longer than the candidate are left out."""
    sums = statistics(candidate, reference)
    matches, totals = sums[0:8:2].clone(), sums[1:8:2]
    if not float(matches[0]):
        return 0.0
    share = 1.0
    for order in range(ORDER):
        if float(totals[order]) and not float(matches[order]):
            share /= 2
            matches[order] = share
    there = totals > 0
    brevity = min(0.0, 1 - float(sums[9] / sums[8]))
    return float(100 * torch.exp((matches[there] / totals[there]).log().mean() + brevity))
