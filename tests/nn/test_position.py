"""Positions: the sinusoidal table by its formula, and rotation as a function of distance."""

from __future__ import annotations

import math

import pytest
import torch

from weft.nn.position import apply_rope, rope_table, sinusoidal


@pytest.mark.parametrize("width", [8, 7])
def test_sinusoidal_table_has_its_formula(width: int) -> None:
    table = sinusoidal(50, width)
    for position in (0, 1, 17, 49):
        for column in range(width):
            angle = position / 10000 ** ((column - column % 2) / width)
            expected = math.cos(angle) if column % 2 else math.sin(angle)
            assert float(table[position, column]) == pytest.approx(expected, abs=2e-5)


@pytest.mark.parametrize("shift", [1, 7, 300])
def test_a_shift_of_the_sinusoidal_table_is_linear(shift: int) -> None:
    """Vaswani et al., section 3.5: the encoding of t + k is that of t times a matrix of k alone, which turns each pair of columns."""
    table, width = sinusoidal(1000, 16).double(), 16
    matrix = torch.zeros(width, width, dtype=torch.float64)
    for column in range(0, width, 2):
        angle = shift / 10000 ** (column / width)
        turn = torch.tensor([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]], dtype=torch.float64)
        matrix[column : column + 2, column : column + 2] = turn
    torch.testing.assert_close(table[:-shift] @ matrix, table[shift:], atol=1e-4, rtol=0)  # angles up to 1,000 in fp32


def test_the_sinusoidal_table_lies_between_one_and_minus_one_and_its_waves_grow_by_a_factor() -> None:
    """From 2 pi to 10,000 times as long, the last of which is never reached, each longer than the one before by the same factor."""
    width = 512
    table = sinusoidal(2000, width).double()
    assert float(table.abs().max()) <= 1.0
    angle = torch.atan2(table[1, 0::2], table[1, 1::2])  # of one step, less than half a turn
    lengths = 2 * math.pi / angle
    assert float(lengths[0]) == pytest.approx(2 * math.pi, rel=1e-5)
    assert float(lengths[-1]) == pytest.approx(2 * math.pi * 10000 ** ((width - 2) / width), rel=1e-4)
    torch.testing.assert_close(lengths[1:] / lengths[:-1], torch.full((width // 2 - 1,), 10000 ** (2 / width)).double(), rtol=1e-5, atol=0)


def test_rotation_keeps_lengths_and_makes_scores_depend_on_distance_only() -> None:
    torch.manual_seed(0)
    table = rope_table(64, 16)
    q, k = torch.randn(16), torch.randn(16)
    turned_q, turned_k = (apply_rope(v.expand(1, 64, 1, 16), table)[0, :, 0] for v in (q, k))
    torch.testing.assert_close(turned_q.norm(dim=-1), q.norm().expand(64))
    scores = turned_q @ turned_k.T
    for distance in (-20, -1, 0, 5, 40):
        diagonal = scores.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), atol=2e-4, rtol=1e-4)
    torch.testing.assert_close(turned_q[0], q)


def test_rotation_turns_each_pair_by_its_angle() -> None:
    table = rope_table(10, 4)
    x = torch.tensor([1.0, 0.0, 0.0, 0.0]).expand(1, 10, 1, 4)
    turned = apply_rope(x, table)[0, :, 0]
    position = torch.arange(10.0)
    torch.testing.assert_close(turned[:, 0], position.cos())
    torch.testing.assert_close(turned[:, 2], position.sin())
    assert turned[:, [1, 3]].abs().max() == 0


def test_rows_may_stand_at_positions_of_their_own() -> None:
    table, x = rope_table(20, 4), torch.randn(2, 3, 2, 5, 4, generator=torch.Generator().manual_seed(0))
    document_positions = torch.tensor([[0, 1, 2], [7, 8, 11]])
    turned = apply_rope(x, table[:, document_positions])
    for row, place, expected in zip(x, document_positions, turned, strict=True):
        assert torch.equal(apply_rope(row[None], table[:, place])[0], expected)
