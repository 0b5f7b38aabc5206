"""Attention from one sequence into another.

B batch, T query time, S key time, D width, H heads, K head width.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from weft.nn.attention import fused_attention
from weft.nn.position import apply_rope


def causal_mask(queries: Tensor, keys: int) -> Tensor:
    """True where a query at a position (T,) or (B, T) may see one of the first S keys: (1 or B, 1, T, S)."""
    mask = torch.arange(keys, device=queries.device) <= queries.unsqueeze(-1)
    return mask.view(-1, 1, queries.size(-1), keys)


class CrossAttention(nn.Module):
    """Every query looks at the keys of another sequence."""

    attention_fn = staticmethod(fused_attention)
    """What queries find among keys and values. `kernels.select` may put another function there that computes the same."""

    def __init__(self, width: int, heads: int, *, dropout: float = 0.0, bias: bool = True):
        super().__init__()
        assert width % heads == 0, f"width {width} is not a multiple of {heads} heads"
        self.heads, self.dropout = heads, dropout
        self.q = nn.Linear(width, width, bias=bias)
        self.kv = nn.Linear(width, 2 * width, bias=bias)
        self.out = nn.Linear(width, width, bias=bias)

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        rotary: Tensor | None = None,
        memory_rotary: Tensor | None = None,
        cross_kv: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:
        """x (1 or B, T, D), memory (B, S, D), mask (1 or B, 1, T, S) True where a key may be seen -> (B, T, D).

        Rotary tables of both sides: (2, T, K) and (2, S, K), or (2, B, T, K) and (2, B, S, K) where rows differ. known: what
        `project` made of the memory before.
        """
        (b, _, d), t = memory.shape, x.size(1)
        q = self.q(x).view(-1, t, self.heads, d // self.heads)
        if rotary is not None:
            q = apply_rope(q, rotary)
        k, v = cross_kv or self.project(memory, memory_rotary)
        q = q.expand(b, -1, -1, -1)  # queries common to all rows are projected once
        dropout = self.dropout if self.training else 0.0
        mixed = self.attention_fn(q.transpose(1, 2), k, v, mask, False, dropout)  # (B, H, T, K)
        out: Tensor = self.out(mixed.transpose(1, 2).reshape(b, t, d))
        return out

    def project(self, memory: Tensor, rotary: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Keys and values of a memory (B, S, D), each (B, H, S, K)."""
        b, s, d = memory.shape
        k, v = self.kv(memory).view(b, s, 2, self.heads, d // self.heads).unbind(2)
        return (k if rotary is None else apply_rope(k, rotary)).transpose(1, 2), v.transpose(1, 2)
