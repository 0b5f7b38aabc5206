"""Attention under a mask that lets a query see a few keys is attention to those keys alone.

The masks are those of a local band and of blocks (Child et al., 2019, arXiv:1904.10509), and of a band, a few tokens that see and are
seen by all, and random keys (BigBird, Zaheer et al., 2020, arXiv:2007.14062). All scores are computed: there is no sparse attention,
which would save those that are hidden.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from weft.kernels.select import use_attention
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
    use_attention(made, backend)
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
