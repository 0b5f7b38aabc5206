"""Multi-head attention (Vaswani et al., 2017, arXiv:1706.03762).

B batch, T query time, S key time, D width, H heads, K head width.
"""

from __future__ import annotations

from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.layers.position import rotate


@cache
def _future(queries: int, keys: int, device: torch.device) -> Tensor:
    """True where a query (row) must not see a key (column)."""
    return torch.ones(queries, keys, dtype=torch.bool, device=device).triu(keys - queries + 1)


def explicit_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, dropout: float) -> Tensor:
    """softmax(q kᵀ / sqrt(K)) v by matrix products; q (B, H, T, K), k and v (B, H, S, K) -> (B, H, T, K)."""
    with torch.autocast(q.device.type, enabled=False):  # softmax sums in fp32 inside; autocast would copy the scores
        scores = (q * q.size(-1) ** -0.5) @ k.mT  # (B, H, T, S)
        if causal:
            scores = scores.masked_fill(_future(q.size(-2), k.size(-2), q.device), float("-inf"))
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        weights = scores.softmax(dim=-1)
        if mask is not None:  # a query that may see nothing gets zeros, not NaN
            weights = weights.masked_fill(~mask.any(-1, keepdim=True), 0.0)
        if dropout:
            weights = F.dropout(weights, dropout)
        return weights @ v


def fused_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, dropout: float) -> Tensor:
    """The same in one kernel."""
    if mask is None:
        return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=causal)
    allowed = mask & ~_future(q.size(-2), k.size(-2), q.device) if causal else mask
    seen = allowed.any(-1, keepdim=True)
    # a row that may see nothing is computed as if it saw everything, then set to zero
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed | ~seen, dropout_p=dropout)
    return out.masked_fill(~seen, 0.0)


class SelfAttention(nn.Module):
    """Every position looks at the others (at earlier ones only where causal)."""

    attention_backend = "fused"
    """"fused" or "explicit": the trainer chooses by device."""

    def __init__(self, width: int, heads: int, *, causal: bool, dropout: float = 0.0, bias: bool = True):
        super().__init__()
        assert width % heads == 0, f"width {width} is not a multiple of {heads} heads"
        self.heads, self.causal, self.dropout = heads, causal, dropout
        self.qkv = nn.Linear(width, 3 * width, bias=bias)
        self.out = nn.Linear(width, width, bias=bias)

    def forward(self, x: Tensor, mask: Tensor | None = None, rotary: Tensor | None = None) -> Tensor:
        """x (B, T, D), mask (B, 1, T or 1, T) True where a key may be seen, rotary (2, T, K) -> (B, T, D)."""
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)  # each (B, H, T, K)
        if rotary is not None:
            q, k = rotate(q, rotary), rotate(k, rotary)
        attend = fused_attention if self.attention_backend == "fused" else explicit_attention
        mixed = attend(q, k, v, mask, self.causal, self.dropout if self.training else 0.0)
        out: Tensor = self.out(mixed.transpose(1, 2).reshape(b, t, d))
        return out
