"""Location-sensitive attention by its equation; masked positions and rows; how it sums up where it looked."""

from __future__ import annotations

import pytest
import torch

from weft.core.errors import ConfigError
from weft.nn.seq2seq.location_attention import LocationAttention

B, S, Q, M, A = 2, 6, 3, 4, 5


def layer(**settings: bool) -> LocationAttention:
    torch.manual_seed(0)
    return LocationAttention(Q, M, A, filters=2, kernel=3, **settings)


def parts() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    return torch.randn(B, 1, Q), torch.randn(B, S, M), torch.rand(B, S)


@torch.no_grad()
def test_scores_are_their_equation() -> None:
    made, (query, values, before) = layer(), parts()
    context, weights, after = made(query, made.project(values), values, before)
    s, padded = made.score, torch.nn.functional.pad(before, (1, 1))
    energies = torch.zeros(B, S)
    for b in range(B):
        for n in range(S):
            f = made.convolution.weight[:, 0] @ padded[b, n : n + 3]  # (K,)
            inner = s.query.weight @ query[b, 0] + s.key.weight @ values[b, n] + s.key.bias + made.location.weight @ f
            energies[b, n] = s.out.weight[0] @ torch.tanh(inner)
    expected = energies.softmax(-1)
    torch.testing.assert_close(weights[:, 0], expected)
    torch.testing.assert_close(after, expected)
    torch.testing.assert_close(context[:, 0], torch.einsum("bs,bsm->bm", expected, values))


@torch.no_grad()
def test_cumulative_weights_are_summed_up() -> None:
    made, (query, values, _) = layer(cumulative=True), parts()
    before, total = made.begin(values), torch.zeros(B, S)
    for _ in range(3):
        _, weights, before = made(query, made.project(values), values, before)
        total += weights[:, 0]
        torch.testing.assert_close(before, total)


@torch.no_grad()
def test_what_is_masked_has_no_weight_and_changes_nothing() -> None:
    made, (query, values, before) = layer(), parts()
    mask = torch.tensor([[True] * 4 + [False] * 2, [False] * S])
    before = before * mask
    context, weights, after = made(query, made.project(values), values, before, mask)
    assert (weights[0, 0, 4:] == 0).all()
    assert float(weights[0].sum()) == pytest.approx(1.0)
    assert (weights[1] == 0).all()
    assert (context[1] == 0).all()
    assert (after[1] == 0).all()
    spoilt = values.masked_fill(~mask[:, :, None], float("nan"))
    again = made(query, made.project(spoilt), spoilt, before, mask)
    torch.testing.assert_close(again[0], context)
    torch.testing.assert_close(again[1], weights)


def test_a_kernel_without_a_middle_is_refused() -> None:
    with pytest.raises(ConfigError, match="must be odd"):
        LocationAttention(Q, M, A, kernel=4)
