"""Multi-head attention (Vaswani et al., 2017, arXiv:1706.03762).

B batch, T query time, S key time, D width, H heads, K head width.
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from weft.core.tensor_cache import cached
from weft.nn.position import apply_rope
from weft.nn.state import LayerKV


def _make_causal_mask(queries: int, keys: int, device: torch.device) -> Tensor:
    with torch.inference_mode(False):  # kept, so it must also serve training
        return torch.ones(queries, keys, dtype=torch.bool, device=device).triu(keys - queries + 1)


_cached_causal_mask = cached(_make_causal_mask)


def _causal_mask(queries: int, keys: int, device: torch.device) -> Tensor:
    """True where a query (row) must not see a key (column); the last query sees every key."""
    return _cached_causal_mask(queries, keys, device)


def zero_masked_kv(k: Tensor, v: Tensor, mask: Tensor, causal: bool) -> tuple[Tensor, Tensor]:
    """k and v (B, H, S, K) with zeros for the keys that no query may see, as a weight of 0 times NaN is NaN."""
    if mask.size(-2) > 1:
        seen = mask & ~_causal_mask(mask.size(-2), k.size(-2), k.device) if causal else mask
        mask = seen.any(-2, keepdim=True)
    # (B or 1, H or 1, S, 1), -1 with all its bits set where seen; under a causal mask too the last query sees every key
    bits = -mask.mT.to({2: torch.int16, 4: torch.int32, 8: torch.int64}[k.element_size()])
    if not torch.is_grad_enabled():
        return _kept(k, bits), _kept(v, bits)
    return _Keep.apply(k, bits), _Keep.apply(v, bits)  # type: ignore[no-untyped-call]


def _kept(x: Tensor, bits: Tensor) -> Tensor:
    return (x.view(bits.dtype) & bits).view(x.dtype)


class _Keep(torch.autograd.Function):
    """Zero for what is hidden, whatever it was: on a CPU several times as fast as masked_fill, which is not vectorised."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, bits: Tensor) -> Tensor:
        ctx.save_for_backward(bits)
        return _kept(x, bits)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return _kept(gradients[0], *ctx.saved_tensors), None


def explicit_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
    dropout: float = 0.0,
    bias: Tensor | None = None,
    scale: float | None = None,
) -> Tensor:
    """softmax(q kᵀ scale + bias) v by matrix products; q (B, H, T, K), k and v (B, H, S, K) -> (B, H, T, K).

    mask (B or 1, H or 1, T or 1, S) is True where a key may be seen; bias broadcasts to the scores (B, H, T, S). A key that no query
    may see, such as padding, reaches neither the result nor a gradient, even if it or its value is NaN or infinite.
    """
    if mask is not None:
        k, v = zero_masked_kv(k, v, mask, causal)
    with torch.autocast(q.device.type, enabled=False):  # softmax sums in fp32 inside; autocast would copy the scores
        scores = (q * (q.size(-1) ** -0.5 if scale is None else scale)) @ k.mT  # (B, H, T, S)
        if bias is not None:
            scores = scores + bias.to(scores.dtype)
        hidden = _causal_mask(q.size(-2), k.size(-2), q.device) if causal else None
        if mask is not None:
            hidden = ~mask if hidden is None else hidden | ~mask
        if hidden is not None:
            scores = scores.masked_fill(hidden, float("-inf"))
        weights = scores.softmax(dim=-1)
        if mask is not None and hidden is not None:  # a query that may see nothing gets zeros, not NaN
            weights = weights.masked_fill(hidden.all(-1, keepdim=True), 0.0)
        if dropout:
            weights = F.dropout(weights, dropout)
        mixed: Tensor = weights @ v
    return mixed


def fused_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
    dropout: float = 0.0,
    bias: Tensor | None = None,
    scale: float | None = None,
    clean: bool = False,
) -> Tensor:
    """The same in one kernel.

    clean: no key or value is NaN or infinite, and every query sees a key, as in a KV cache: so nothing need be done about either.
    """
    if clean:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, scale=scale)
    square = q.size(-2) == k.size(-2)  # PyTorch's is_causal lets the first query see the first key
    if mask is None and bias is None and (square or not causal):
        return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=causal, scale=scale)
    if mask is not None:
        k, v = zero_masked_kv(k, v, mask, causal)
    past = ~_causal_mask(q.size(-2), k.size(-2), q.device) if causal else None
    allowed = mask if past is None else past if mask is None else mask & past
    if allowed is None:
        assert bias is not None
        with safe_sdpa_backends(q, k):
            return F.scaled_dot_product_attention(q, k, v, attn_mask=bias.to(q.dtype), dropout_p=dropout, scale=scale)
    seen = allowed.any(-1, keepdim=True)
    # a row that may see nothing is computed as if it saw everything, then set to zero
    allowed = allowed | ~seen
    attn_mask = allowed if bias is None else bias.to(q.dtype).masked_fill(~allowed, float("-inf"))
    with safe_sdpa_backends(q, k):
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=attn_mask, dropout_p=dropout, scale=scale)
    return out.masked_fill(~seen, 0.0)


def safe_sdpa_backends(q: Tensor, k: Tensor) -> contextlib.AbstractContextManager[None]:
    """The kernels of a GPU that may attend under a mask: cuDNN's only where its tiles of 128 queries and keys are full.

    In others its backward pass gives NaN once all scores of a query are far below zero, which softmax does not mind and
    training may bring about (seen in torch 2.11 to 2.13: github.com/pytorch/pytorch/issues/196678).
    """
    if not q.is_cuda or (q.size(-2) % 128 == 0 and k.size(-2) % 128 == 0):
        return contextlib.nullcontext()
    return sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH])


def padding_mask(lengths: Tensor | None, size: int) -> Tensor | None:
    """lengths (B,), size S -> True where a position is no padding (B, 1, 1, S); None where nothing is padded."""
    return None if lengths is None else (torch.arange(size, device=lengths.device) < lengths[:, None])[:, None, None]


class SelfAttention(nn.Module):
    """Every position looks at the others (at earlier ones only where causal).

    With fewer `kv_heads` than heads, each group of heads shares its keys and values (Ainslie et al., 2023, arXiv:2305.13245).
    With `qk_norm`, queries and keys have length sqrt(K), so that no score grows without bound (Henry et al., 2020, arXiv:2010.04245).
    """

    attention_fn = staticmethod(fused_attention)
    """What queries find among keys and values. `kernels.select` may put another function there that computes the same."""
    document_blocks = False
    """Whether the core takes a mask of blocks (`nn.document_mask`), too."""

    def __init__(
        self, width: int, heads: int, *, causal: bool, dropout: float = 0.0, bias: bool = True, kv_heads: int = 0, qk_norm: bool = False
    ):
        super().__init__()
        assert width % heads == 0, f"width {width} is not a multiple of {heads} heads"
        self.heads, self.kv_heads, self.causal, self.dropout = heads, kv_heads or heads, causal, dropout
        self.qk_norm = qk_norm
        self.head_dim = width // heads
        self.qkv = nn.Linear(width, (heads + 2 * self.kv_heads) * self.head_dim, bias=bias)
        self.out = nn.Linear(width, width, bias=bias)

    def forward(self, x: Tensor, mask: Any = None, rotary: Tensor | None = None, layer_kv: LayerKV | None = None) -> Tensor:
        """x (B, T, D), mask (B, 1, T or 1, T) True where a key may be seen, or blocks (`nn.document_mask`), rotary (2, T, K) -> (B, T, D).

        With a KV cache, x are new tokens behind what it holds, the mask is (B, 1, T, S), and rotary is (2, B, T, K).
        """
        out: Tensor = self.out(self.attend(x, mask, rotary, layer_kv))
        return out

    def attend(self, x: Tensor, mask: Any, rotary: Tensor | None, layer_kv: LayerKV | None = None) -> Tensor:
        """All but the last layer: the heads' values side by side (B, T, D)."""
        b, t, _ = x.shape
        qkv = self.qkv(x).view(b, t, self.heads + 2 * self.kv_heads, self.head_dim)
        qk, v = qkv.split([self.heads + self.kv_heads, self.kv_heads], dim=2)
        if self.qk_norm:
            qk = F.rms_norm(qk, (self.head_dim,), eps=1e-6).to(v.dtype)
        if rotary is not None:
            qk = apply_rope(qk, rotary)
        if layer_kv is not None:
            q, k = qk.split([self.heads, self.kv_heads], dim=2)
            return self.cached_attention(q, *layer_kv.update(k.transpose(1, 2), v.transpose(1, 2)), mask)
        q, k = qk.split([self.heads, self.kv_heads], dim=2)
        shared = self.heads // self.kv_heads
        q, k, v = q.transpose(1, 2), repeat_kv(k.transpose(1, 2), shared), repeat_kv(v.transpose(1, 2), shared)  # each (B, H, T, K)
        dropout = self.dropout if self.training else 0.0
        return self.attention_fn(q, k, v, mask, self.causal, dropout).transpose(1, 2).flatten(2)

    def cached_attention(self, q: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """q (B, T, H, K) at what is stored, (B, G, S, K) each -> (B, T, D). The heads of a group look together, so no key is copied."""
        b, t, h, k = q.shape
        shared = h // self.kv_heads
        asked = q.view(b, t, self.kv_heads, shared, k).permute(0, 2, 3, 1, 4).reshape(b, self.kv_heads, shared * t, k)
        if mask is not None and shared > 1:
            mask = mask.repeat(1, 1, shared, 1)
        plain = self.attention_fn is vars(self).get("implementations", {}).get("attention_fn", fused_attention)
        attention_fn = partial(fused_attention, clean=True) if plain else self.attention_fn
        found = attention_fn(asked, keys.to(q.dtype), values.to(q.dtype), mask)
        return found.view(b, self.kv_heads, shared, t, k).permute(0, 3, 1, 2, 4).reshape(b, t, h * k)


def repeat_kv(x: Tensor, heads: int) -> Tensor:
    """Each group's keys or values for all of its heads: (B, G, S, K) -> (B, G * heads, S, K)."""
    return x if heads == 1 else x.repeat_interleave(heads, dim=1)
