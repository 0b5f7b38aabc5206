"""Attention of a recurrent decoder to the states of an encoder, before there were Transformers.

A score of every query and key, its softmax over the keys, and the mean of the values under these weights. Scores:

    dot         q · k                           Luong et al., 2015, arXiv:1508.04025
    scaled_dot  q · k / sqrt(K)                 Vaswani et al., 2017, arXiv:1706.03762
    bilinear    q · (W k)                       Luong et al., "general"
    additive    v · tanh(W q + U k)             Bahdanau et al., 2014, arXiv:1409.0473

Shapes: B batch, T query time, S key time, Q query width, K key width, A width of the sum inside an additive score.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from weft.core.errors import ConfigError
from weft.nn import init

Score = Literal["dot", "scaled_dot", "bilinear", "additive"]


class DotScore(nn.Module):
    """Queries times keys, which are as wide."""

    def __init__(self, query: int, key: int, *, scaled: bool):
        super().__init__()
        if query != key:
            name = "scaled_dot" if scaled else "dot"
            raise ConfigError(f"attention {name!r} needs queries as wide as keys, not {query} and {key}; take bilinear or additive")
        self.scale = key**-0.5 if scaled else 1.0

    def project(self, keys: Tensor) -> Tensor:
        """What of the keys (B, S, K) does not depend on a query."""
        return keys

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """query (B, T, Q), projected keys (B, S, Q) -> scores (B, T, S)."""
        return (query * self.scale) @ keys.mT


class BilinearScore(nn.Module):
    """Queries times keys, mapped to the width of queries."""

    def __init__(self, query: int, key: int):
        super().__init__()
        self.key = nn.Linear(key, query, bias=False)
        init.xavier_uniform(self.key.weight)

    def project(self, keys: Tensor) -> Tensor:
        """keys (B, S, K) -> (B, S, Q)."""
        projected: Tensor = self.key(keys)
        return projected

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """query (B, T, Q), projected keys (B, S, Q) -> scores (B, T, S)."""
        return query @ keys.mT


class AdditiveScore(nn.Module):
    """A network with one hidden layer of A units over each pair of query and key."""

    def __init__(self, query: int, key: int, width: int):
        super().__init__()
        self.query = nn.Linear(query, width, bias=False)
        self.key = nn.Linear(key, width)
        self.out = nn.Linear(width, 1, bias=False)
        for layer in (self.query, self.key, self.out):
            init.xavier_uniform(layer.weight)
        nn.init.zeros_(self.key.bias)

    def project(self, keys: Tensor) -> Tensor:
        """keys (B, S, K) -> (B, S, A)."""
        projected: Tensor = self.key(keys)
        return projected

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """query (B, T, Q), projected keys (B, S, A) -> scores (B, T, S)."""
        scores: Tensor = self.out(torch.tanh(self.query(query).unsqueeze(2) + keys.unsqueeze(1)))  # (B, T, S, 1)
        return scores.squeeze(-1)


def score_of(kind: Score, query: int, key: int, width: int) -> nn.Module:
    """The module of a score, by its name."""
    if kind == "additive":
        return AdditiveScore(query, key, width)
    return BilinearScore(query, key) if kind == "bilinear" else DotScore(query, key, scaled=kind == "scaled_dot")


class RNNAttention(nn.Module):
    """What each query finds among the values, and the weights by which it found it."""

    returns_weights = True
    """The second thing that a call returns are its weights, which `inference.attention_weights` records."""

    def __init__(self, kind: Score, query: int, key: int, width: int = 0):
        """width: of the sum inside an additive score; 0 is that of the queries."""
        super().__init__()
        self.score = score_of(kind, query, key, width or query)

    def project(self, values: Tensor) -> Tensor:
        """The keys of values (B, S, K), made once for all queries."""
        keys: Tensor = self.score.project(values)  # type: ignore[operator]
        return keys

    def forward(self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """query (B, T, Q), keys of `project`, values (B, S, K), mask (B, S) True where a key may be seen -> (B, T, K), weights (B, T, S).

        A row that may see nothing gets zeros.
        """
        scores: Tensor = self.score(query, keys).float()  # softmax sums in fp32, also under autocast
        if mask is not None:
            scores = scores.masked_fill(~mask[:, None], float("-inf"))
        weights = scores.softmax(-1)
        if mask is not None:
            weights = weights.masked_fill(~mask.any(-1)[:, None, None], 0.0)
            values = values.masked_fill(~mask[:, :, None], 0.0)  # a weight of 0 does not hide what is not a number
        return weights.to(values.dtype) @ values, weights
