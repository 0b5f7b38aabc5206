"""Cross attention: its definition by loops, shared queries, positions of both sides, and dropout."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from weft.kernels.select import use_attention
from weft.nn.cross_attention import CrossAttention, causal_mask
from weft.nn.position import rope_table

B, T, S, D, H = 3, 4, 7, 16, 2


def layer(backend: str = "fused", dropout: float = 0.0) -> CrossAttention:
    torch.manual_seed(0)
    made = CrossAttention(D, H, dropout=dropout)
    use_attention(made, backend)
    return made.double()


def inputs() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x, memory = (torch.randn(B, size, D, generator=generator, dtype=torch.float64) for size in (T, S))
    return x, memory


def test_a_query_sees_the_keys_up_to_its_position() -> None:
    assert causal_mask(torch.tensor([0, 2]), 4).tolist() == [[[[True, False, False, False], [True, True, True, False]]]]
    rows = causal_mask(torch.tensor([[0, 1], [2, 3]]), 4)
    assert rows.shape == (2, 1, 2, 4)
    assert rows.sum(-1).tolist() == [[[1, 2]], [[3, 4]]]


@pytest.mark.parametrize("backend", ["explicit", "fused"])
def test_it_is_the_definition(backend: str) -> None:
    made, (x, memory), positions = layer(backend), inputs(), torch.tensor([[0, 1, 2, 3], [3, 4, 5, 6], [1, 2, 3, 4]])
    found = made(x, memory, causal_mask(positions, S))
    for b in range(B):
        for t in range(T):
            q, kv = made.q(x[b, t]).view(H, -1), made.kv(memory[b, : positions[b, t] + 1]).view(-1, 2, H, D // H)
            scores = torch.einsum("hk,shk->hs", q, kv[:, 0]) / math.sqrt(D // H)
            mixed = torch.einsum("hs,shk->hk", scores.softmax(-1), kv[:, 1])
            torch.testing.assert_close(found[b, t], made.out(mixed.flatten()))


@pytest.mark.parametrize("backend", ["explicit", "fused"])
def test_queries_common_to_all_rows_need_not_be_repeated(backend: str) -> None:
    made, (x, memory) = layer(backend), inputs()
    torch.testing.assert_close(made(x[:1], memory), made(x[:1].expand(B, -1, -1), memory))


@pytest.mark.parametrize("backend", ["explicit", "fused"])
def test_rotary_positions_count_by_their_distance(backend: str) -> None:
    """Moving queries and keys together changes nothing, moving the queries alone does."""
    made, (x, memory), table = layer(backend), inputs(), rope_table(40, D // H).double()
    rows = torch.arange(T) + torch.tensor([[0], [5], [20]])  # (B, T), another shift in each row
    found = made(x, memory, None, table[:, rows], table[:, rows[:, :1] + torch.arange(S)])
    expected = made(x, memory, None, table[:, :T], table[:, :S])
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)  # the table is computed in fp32
    moved = made(x, memory, None, table[:, rows], table[:, :S])
    assert not torch.allclose(moved[1:], expected[1:], atol=1e-3)
    torch.testing.assert_close(moved[0], expected[0])


@pytest.mark.parametrize("backend", ["explicit", "fused"])
def test_dropout_only_acts_in_training(backend: str) -> None:
    made, (x, memory) = layer(backend, dropout=0.5), inputs()
    assert torch.equal(made.eval()(x, memory), made(x, memory))
    assert not torch.equal(made.train()(x, memory), made(x, memory))
