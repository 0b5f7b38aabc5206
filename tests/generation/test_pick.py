"""Choosing a token: greedy, in proportion, among the top k, within the nucleus; the same whatever stands beside it."""

from __future__ import annotations

import pytest
import torch

from weft import random
from weft.errors import ConfigError
from weft.generation.pick import check, pick

LOGITS = torch.tensor([2.0, 1.0, 0.5, -1.0, -3.0])


def draws(number: int, **settings: float) -> torch.Tensor:
    """Shares of each token among many draws."""
    keys = random.keys(0, torch.arange(number))
    chosen = pick(LOGITS.expand(number, -1), keys, **settings)  # type: ignore[arg-type]
    return torch.bincount(chosen, minlength=5) / number


def test_temperature_zero_takes_the_likeliest() -> None:
    assert pick(LOGITS.expand(3, -1), torch.arange(3), temperature=0).tolist() == [0, 0, 0]


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_shares_follow_the_softmax(temperature: float) -> None:
    expected = (LOGITS / temperature).softmax(-1)
    assert torch.allclose(draws(40_000, temperature=temperature), expected, atol=0.01)


def test_top_k_keeps_the_likeliest_and_their_proportions() -> None:
    shares = draws(40_000, top_k=2)
    assert shares[2:].sum() == 0
    assert torch.allclose(shares[:2], LOGITS[:2].softmax(-1), atol=0.01)
    assert draws(100, top_k=99).sum() == 1


def test_top_p_keeps_the_smallest_set_that_reaches_it() -> None:
    chances = LOGITS.softmax(-1)
    assert draws(5_000, top_p=float(chances[0]) * 0.99)[0] == 1
    shares = draws(40_000, top_p=float(chances[:2].sum()) + 1e-3)
    assert shares[3:].sum() == 0
    assert torch.allclose(shares[:3], chances[:3] / chances[:3].sum(), atol=0.01)


def test_a_draw_depends_on_its_own_key_only() -> None:
    logits = torch.randn(6, 50, generator=torch.Generator().manual_seed(0))
    keys = random.keys(7, torch.arange(6))
    together = pick(logits, keys, top_k=20, top_p=0.9)
    alone = torch.cat([pick(logits[i : i + 1], keys[i : i + 1], top_k=20, top_p=0.9) for i in range(6)])
    assert torch.equal(together, alone)


@pytest.mark.parametrize("settings", [(-0.1, 0, 1.0), (1.0, -1, 1.0), (1.0, 0, 0.0), (1.0, 0, 1.1)])
def test_settings_that_choose_nothing_are_refused(settings: tuple[float, int, float]) -> None:
    with pytest.raises(ConfigError):
        check(*settings)
