"""Copying: a mixture of generating words and pointing at those of the source, over an extended vocabulary.

P(w) = p_gen P_vocabulary(w) + (1 - p_gen) * (sum of the attention to the positions of the source that hold w)
(See et al., 2017, arXiv:1704.04368; Gu et al., 2016, arXiv:1603.06393). The vocabulary is extended by ids behind its end, which stand
for words of the source that it does not have; those can be copied only.

Shapes: B batch, T target time, S source time, V vocabulary, E ids of the extended vocabulary, at least V.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

LEAST = 1e-30
"""A probability of which the logarithm is taken: what neither is generated nor stands in the source."""


def copy_mixture(logits: Tensor, weights: Tensor, gate: Tensor, source: Tensor, extended: int) -> Tensor:
    """logits (B, T, V), attention weights (B, T, S), gate (B, T, 1), ids of the source (B, S), E -> log-probabilities (B, T, E) in fp32.

    gate: the logit of p_gen. A row of the source without any attention leaves what is generated alone, with p_gen 1.
    """
    with torch.autocast(logits.device.type, enabled=False):
        weights, gate = weights.float(), gate.float()
        generated = F.pad(logits.float().log_softmax(-1), (0, extended - logits.size(-1)), value=math.log(LEAST))
        copied = weights.new_zeros(*weights.shape[:2], extended).scatter_add(-1, source[:, None].expand_as(weights), weights)
        seen = weights.sum(-1, keepdim=True) > 0
        mixed = torch.logaddexp(F.logsigmoid(gate) + generated, F.logsigmoid(-gate) + copied.clamp(min=LEAST).log())
        return torch.where(seen, mixed, generated)
