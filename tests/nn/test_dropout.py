"""Dropout: the mean stays, evaluation is the identity, and the hashed mask looks random."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from weft.nn.dropout import Dropout, DropPath, kept


def seeds(number: int) -> Tensor:
    """Seeds as a step draws them, each (1,)."""
    generator = torch.Generator().manual_seed(0)
    return torch.randint(-(2**31), 2**31 - 1, (number, 1), dtype=torch.int32, generator=generator)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_dropout_keeps_the_expectation(share: float) -> None:
    torch.manual_seed(0)
    layer, x = Dropout(share), torch.randn(20)
    out = layer(x.expand(40_000, 20))
    torch.testing.assert_close(out.mean(0), x, atol=0.15 if share > 0.5 else 0.03, rtol=0)
    assert float((out == 0).float().mean()) == pytest.approx(share, abs=0.005)
    scaled = out[out != 0] * (1 - share)
    assert torch.isin(scaled.round(decimals=4), x.round(decimals=4)).float().mean() > 0.9


def test_evaluation_is_the_identity() -> None:
    x = torch.randn(20)
    assert torch.equal(Dropout(0.5).eval()(x), x)
    assert torch.equal(Dropout(0.0)(x), x)


def test_a_branch_is_kept_whole_or_left_out_for_each_example() -> None:
    torch.manual_seed(0)
    layer, x = DropPath(0.2), torch.randn(4000, 3, 2)
    out = layer(x)
    gone = (out == 0).flatten(1).all(1)
    assert float(gone.float().mean()) == pytest.approx(0.2, abs=0.02)
    torch.testing.assert_close(out[~gone], x[~gone] / 0.8)
    assert torch.equal(layer.eval()(x), x)
    assert torch.equal(DropPath(0.0)(x), x)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.8, 0.9])
def test_the_hashed_mask_keeps_its_share_everywhere(share: float) -> None:
    masks = torch.stack([kept(torch.Size((64, 64)), seed, share) for seed in seeds(200)]).float()
    assert float(masks.mean()) == pytest.approx(share, abs=0.003)
    assert float((masks.mean(0) - share).abs().max()) < 6 * (share * (1 - share) / 200) ** 0.5
    assert float((masks.mean((1, 2)) - share).abs().max()) < 6 * (share * (1 - share) / 4096) ** 0.5


def test_the_hashed_masks_of_two_seeds_and_of_neighbours_are_independent() -> None:
    masks = torch.stack([kept(torch.Size((4096,)), seed, 0.5) for seed in seeds(50)]).float()
    correlation = torch.corrcoef(masks) - torch.eye(50)
    assert float(correlation.abs().max()) < 6 / 64
    shifted = torch.stack([torch.corrcoef(torch.stack([m[:-1], m[1:]]))[0, 1] for m in masks])
    assert float(shifted.abs().max()) < 6 / 64


@pytest.mark.gpu
@pytest.mark.parametrize("kind", [Dropout, DropPath])
def test_a_compiled_dropout_keeps_the_expectation_and_follows_the_seed(kind: type[Dropout]) -> None:
    pytest.importorskip("triton")
    layer = torch.compile(kind(0.3))
    x = torch.ones(200_000, 5, device="cuda")  # so many that a branch is dropped as often as asked
    outs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        outs.append(layer(x))
    assert torch.equal(outs[0], outs[1])
    assert not torch.equal(outs[0], outs[2])
    assert float(outs[0].mean()) == pytest.approx(1, abs=0.01)
