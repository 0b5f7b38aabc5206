"""Walks through latents: arcs with the right ends and lengths, sheets of the right shape, capabilities that are missing."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from weft.core import random
from weft.core.errors import CapabilityError
from weft.visual.latent_interpolation import FAR, STEPS, arc, interpolate, latents, traverse


class Painter(nn.Module):
    """Shows a latent as it is."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def latents(self, key: Tensor) -> Tensor:
        return random.normal(key, 6)

    def to_data(self, z: Tensor) -> Tensor:
        return z.view(-1, 1, 2, 3)


class Flow(nn.Module):
    """Draws and inverts, and knows no latents of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def sample(self, key: Tensor) -> Tensor:
        return 2 * random.normal(key, 1, 2, 3)

    def to_latent(self, x: Tensor) -> Tensor:
        return x / 2

    def to_data(self, z: Tensor) -> Tensor:
        return 2 * z


def test_an_arc_keeps_its_ends_and_lengths() -> None:
    first, second = torch.randn(5, 30), torch.randn(5, 30)
    path = arc(first, second, 7)
    assert path.shape == (5, 7, 30)
    torch.testing.assert_close(path[:, 0], first, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(path[:, -1], second, atol=1e-4, rtol=1e-4)
    lengths = path.norm(dim=2)
    assert (lengths >= torch.minimum(first.norm(dim=1), second.norm(dim=1))[:, None] - 1e-3).all()
    unit = path / path.norm(dim=2, keepdim=True)
    steps = (unit[:, 1:] * unit[:, :-1]).sum(2)
    torch.testing.assert_close(steps, steps[:, :1].expand_as(steps), atol=1e-4, rtol=1e-4)  # equal angles
    torch.testing.assert_close(arc(first, first, 3)[:, 1], first, atol=1e-2, rtol=1e-2)


def test_rows_go_from_one_draw_to_the_next() -> None:
    sheet = interpolate(Painter(), rows=3, seed=4).view(3, STEPS, 6)
    drawn = latents(Painter(), 4, 4)
    torch.testing.assert_close(sheet[:, 0], drawn[:3], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(sheet[:, -1], drawn[1:], atol=1e-4, rtol=1e-4)


def test_one_dimension_moves_in_each_row() -> None:
    sheet = traverse(Painter(), rows=20).view(6, STEPS, 6)  # there are no more dimensions
    start = latents(Painter(), 1, 0)[0]
    for row in range(6):
        torch.testing.assert_close(sheet[row, :, row], torch.linspace(-FAR, FAR, STEPS))
        others = [place for place in range(6) if place != row]
        torch.testing.assert_close(sheet[row][:, others], start[others].expand(STEPS, -1))


def test_an_invertible_model_walks_between_its_own_draws() -> None:
    assert interpolate(Flow(), rows=2).shape == (2 * STEPS, 1, 2, 3)
    torch.testing.assert_close(latents(Flow(), 3, 0), random.normal(random.keys(random.seed_of(0, "sample"), torch.arange(3)), 1, 2, 3))


def test_a_model_without_latents_says_so() -> None:
    with pytest.raises(CapabilityError, match="does not offer HasLatents"):
        interpolate(nn.Linear(1, 1))
