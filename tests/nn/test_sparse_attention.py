"""Attention to a few keys only: a mask over all pairs gives what is computed from the seen pairs alone.

A local band and blocks (Child et al., 2019, arXiv:1904.10509); a band, a few tokens that see and are seen by all, and random
keys (BigBird, Zaheer et al., 2020, arXiv:2007.14062). The scores of all pairs are T², those of a band T times its width.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from weft.nn.attention import SelfAttention

T, WIDTH, HEADS, REACH = 24, 16, 2, 3


def band() -> Tensor:
    place = torch.arange(T)
    return (place[:, None] - place).abs() <= REACH


def blocks() -> Tensor:
    block = torch.arange(T) // 5  # the last one is shorter
    return block[:, None] == block


def big_bird() -> Tensor:
    seen = band() | (torch.rand(T, T, generator=torch.Generator().manual_seed(0)) < 0.1)
    seen[:2], seen[:, :2] = True, True
    return seen


MASKS = {"band": band, "blocks": blocks, "big bird": big_bird}


def layer(backend: str) -> SelfAttention:
    torch.manual_seed(0)
    made = SelfAttention(WIDTH, HEADS, causal=False)
    made.attention_backend = backend
    return made


def heads(made: SelfAttention, x: Tensor) -> Tensor:
    """Queries, keys and values (3, B, H, T, K)."""
    return made.qkv(x).view(len(x), T, 3, HEADS, -1).permute(2, 0, 3, 1, 4)


@pytest.mark.parametrize("backend", ["fused", "explicit"])
@pytest.mark.parametrize("name", MASKS)
def test_a_mask_is_attention_to_the_seen_keys_alone(name: str, backend: str) -> None:
    made, x, mask = layer(backend), torch.randn(2, T, WIDTH), MASKS[name]()
    q, k, v = heads(made, x)
    mixed = torch.empty_like(q)
    for query in range(T):
        keys = mask[query].nonzero()[:, 0]
        scores = (q[:, :, query, None] * k[:, :, keys]).sum(-1) / (WIDTH // HEADS) ** 0.5  # (B, H, S)
        mixed[:, :, query] = (scores.softmax(-1)[..., None] * v[:, :, keys]).sum(-2)
    expected = made.out(mixed.transpose(1, 2).reshape(2, T, WIDTH))
    torch.testing.assert_close(made(x, mask[None, None]), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("backend", ["fused", "explicit"])
def test_a_band_can_be_cut_out_instead_of_masked(backend: str) -> None:
    """T * (2 * reach + 1) scores instead of T * T, and the same result."""
    made, x = layer(backend), torch.randn(2, T, WIDTH)
    q, k, v = heads(made, x)
    near = torch.arange(T)[:, None] + torch.arange(-REACH, REACH + 1)  # (T, 2 * reach + 1)
    inside = (near >= 0) & (near < T)
    k, v = k[:, :, near.clamp(0, T - 1)], v[:, :, near.clamp(0, T - 1)]  # (B, H, T, 2 * reach + 1, K)
    scores = torch.einsum("bhtk,bhtsk->bhts", q, k) / (WIDTH // HEADS) ** 0.5
    assert scores[0, 0].numel() == T * (2 * REACH + 1)
    mixed = torch.einsum("bhts,bhtsk->bhtk", scores.masked_fill(~inside, float("-inf")).softmax(-1), v)
    expected = made.out(mixed.transpose(1, 2).reshape(2, T, WIDTH))
    torch.testing.assert_close(made(x, band()[None, None]), expected, atol=1e-5, rtol=1e-5)
