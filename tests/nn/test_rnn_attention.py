"""Each score by its equation, with loops; weights that are a distribution over what may be seen."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from weft.core.errors import ConfigError
from weft.nn.rnn_attention import RNNAttention

KINDS: tuple[Any, ...] = ("dot", "scaled_dot", "bilinear", "additive")
B, T, S = 3, 4, 5
LENGTHS = torch.tensor([5, 2, 0])


def by_hand(attention: Any, kind: str, q: Tensor, k: Tensor) -> Tensor:
    """The score of one query (Q,) and one key (K,)."""
    if kind == "bilinear":
        return torch.dot(q, attention.score.key.weight @ k)
    if kind == "additive":
        score = attention.score
        return torch.dot(score.out.weight[0], torch.tanh(score.query.weight @ q + score.key.weight @ k + score.key.bias))
    return torch.dot(q, k) / (math.sqrt(len(k)) if kind == "scaled_dot" else 1.0)


def case(kind: Any, key: int = 6) -> tuple[RNNAttention, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    attention = RNNAttention(kind, 6, key, width=7).double()
    query, values = torch.randn(B, T, 6, generator=generator).double(), torch.randn(B, S, key, generator=generator).double()
    return attention, query, values, torch.arange(S) < LENGTHS[:, None]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("key", [6, 9])
def test_scores_weights_and_means_are_those_of_the_equations(kind: str, key: int) -> None:
    if key != 6 and kind.endswith("dot"):
        with pytest.raises(ConfigError, match="queries as wide as keys, not 6 and 9; take bilinear or additive"):
            case(kind, key)
        return
    attention, query, values, mask = case(kind, key)
    found, weights = attention(query, attention.project(values), values, mask)
    for row, length in enumerate(LENGTHS.tolist()):
        for time in range(T):
            scores = [by_hand(attention, kind, query[row, time], values[row, place]).exp() for place in range(length)]
            expected = [score / sum(scores) for score in scores] + [torch.zeros(())] * (S - length)
            torch.testing.assert_close(weights[row, time].double(), torch.stack([each.double() for each in expected]), atol=1e-6, rtol=1e-5)
            mean = sum((each * value for each, value in zip(expected, values[row], strict=True)), torch.zeros(key))
            torch.testing.assert_close(found[row, time], mean.double(), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_padding_is_not_seen_and_gets_no_gradient(kind: str) -> None:
    attention, query, values, mask = case(kind)
    query.requires_grad_()
    spoiled = values.masked_fill(~mask[..., None], 1e3).requires_grad_()
    found, weights = attention(query, attention.project(spoiled), spoiled, mask)
    expected, _ = attention(query, attention.project(values), values, mask)
    torch.testing.assert_close(found, expected)
    assert torch.allclose(weights.sum(-1), (LENGTHS > 0).float()[:, None].expand(B, T))
    assert not found[2].any() and not weights[2].any(), "a source without a token is seen as zeros"
    found.sum().backward()
    assert spoiled.grad is not None and query.grad is not None
    assert not spoiled.grad[~mask].any()
    assert all(torch.isfinite(p.grad).all() for p in [spoiled, query, *attention.parameters()])  # type: ignore[arg-type]


def test_bilinear_with_the_identity_is_the_dot_and_scaling_divides_by_the_root_of_the_width() -> None:
    dot, query, values, mask = case("dot")
    bilinear = case("bilinear")[0]
    with torch.no_grad():
        bilinear.score.key.weight.copy_(torch.eye(6))  # type: ignore[union-attr, operator]
    torch.testing.assert_close(bilinear(query, bilinear.project(values), values, mask)[1], dot(query, values, values, mask)[1])
    scaled = case("scaled_dot")[0]
    torch.testing.assert_close(scaled(query * math.sqrt(6), values, values, mask)[1], dot(query, values, values, mask)[1])
