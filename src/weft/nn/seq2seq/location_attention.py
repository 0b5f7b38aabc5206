"""Location-sensitive attention of a recurrent decoder: where it looked before is a part of the score (Chorowski et al., 2015,
arXiv:1506.07503).

    e_n = w · tanh(W q + V h_n + U f_n + b),   f = F * α, the weights of the step before, convolved with K filters

With `cumulative`, α is the sum of all weights so far (Shen et al., 2017, arXiv:1712.05884).

Shapes: B batch, S source time, Q query width, M width of values, A width of the sum inside a score, K filters.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from weft.core.errors import ConfigError
from weft.nn import init
from weft.nn.rnn_attention import AdditiveScore


class LocationAttention(nn.Module):
    """What a query finds among the values, its weights, and what the next query is to know of them."""

    returns_weights = True
    """The second thing that a call returns are its weights, which `inference.attention_weights` records."""

    def __init__(self, query: int, key: int, width: int, *, filters: int = 10, kernel: int = 31, cumulative: bool = False):
        super().__init__()
        if kernel % 2 == 0:
            raise ConfigError(f"the kernel of location-sensitive attention must be odd, to have a middle, not {kernel}")
        self.score, self.cumulative = AdditiveScore(query, key, width), cumulative
        self.convolution = nn.Conv1d(1, filters, kernel, padding=kernel // 2, bias=False)
        self.location = nn.Linear(filters, width, bias=False)
        init.xavier_uniform(self.location.weight)

    def project(self, values: Tensor) -> Tensor:
        """The keys of values (B, S, M), made once for all queries: (B, S, A)."""
        return self.score.project(values)

    def begin(self, values: Tensor) -> Tensor:
        """Where was looked before the first query: nowhere (B, S), in fp32."""
        return torch.zeros(values.shape[:2], device=values.device)

    def forward(
        self, query: Tensor, keys: Tensor, values: Tensor, before: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """query (B, 1, Q), keys of `project`, values (B, S, M), before (B, S), mask (B, S) True where a key may be seen -> (B, 1, M),
        weights (B, 1, S), and what is `before` the next query (B, S).

        A row that may see nothing gets zeros.
        """
        where = self.location(self.convolution(before.to(keys.dtype).unsqueeze(1)).mT)  # (B, S, A)
        scores = self.score(query, keys + where).float()  # softmax sums in fp32, also under autocast
        if mask is not None:
            scores = scores.masked_fill(~mask[:, None], float("-inf"))
        weights = scores.softmax(-1)
        if mask is not None:
            weights = weights.masked_fill(~mask.any(-1)[:, None, None], 0.0)
            values = values.masked_fill(~mask[:, :, None], 0.0)  # a weight of 0 does not hide what is not a number
        after = weights[:, 0] + before if self.cumulative else weights[:, 0]
        return weights.to(values.dtype) @ values, weights, after
