"""Cores of attention that compute what `nn.attention.fused_attention` does, and `SelfAttention.attend` by kernels for packed q, k and v.

B batch, T query time, S key time, D width, H heads, K head width.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from weft.kernels.block_passes import kind_of_products
from weft.kernels.causal_attention import causal_attention
from weft.kernels.implementation import Implementation, install
from weft.kernels.spec import AttentionSpec
from weft.kernels.usage import UsageSpec
from weft.nn.attention import SelfAttention, explicit_attention, fused_attention
from weft.nn.document_mask import block_attention, is_blocks
from weft.nn.position import apply_rope
from weft.nn.state import LayerKV

SHORTEST = 128
"""Tokens up to which `kernels.triton.short_attention` serves."""
HEADS = (16, 32, 64, 128)
"""Widths of heads that it serves."""


def served(q: Tensor, k: Tensor, causal: bool) -> bool:
    """Whether the makers' own kernels take these shapes."""
    half = q.is_cuda and q.dtype in (torch.bfloat16, torch.float16)
    return half and q.size(-1) % 8 == 0 and q.size(-1) <= 128 and (q.size(-2) == k.size(-2) or not causal)


def gpu_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Any = None,
    causal: bool = False,
    dropout: float = 0.0,
    bias: Tensor | None = None,
    scale: float | None = None,
) -> Tensor:
    """`fused_attention`, which takes a mask of blocks of documents, too."""
    if is_blocks(mask):
        return block_attention(q, k, v, mask)
    return fused_attention(q, k, v, mask, causal, dropout, bias, scale)


def cudnn_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Any = None,
    causal: bool = False,
    dropout: float = 0.0,
    bias: Tensor | None = None,
    scale: float | None = None,
) -> Tensor:
    """The same by cuDNN's kernel where it serves, the fastest on Hopper; PyTorch would ask for it last."""
    if mask is not None or bias is not None or not served(q, k, causal):
        return gpu_attention(q, k, v, mask, causal, dropout, bias, scale)
    with_grad = torch.is_grad_enabled()
    out: Tensor = torch.ops.aten._scaled_dot_product_cudnn_attention(q, k, v, None, with_grad, dropout, causal, False, scale=scale)[0]
    return out


CORES: dict[str, Callable[..., Tensor]] = {"fused": fused_attention, "cudnn": cudnn_attention, "explicit": explicit_attention}
"""By the names of `--train.attention`."""


def packed_heads(attention: SelfAttention, x: Tensor, rotary: Tensor | None) -> Tensor:
    """Queries, keys and values side by side (B, T, 3, H, K), of x (B, T, D)."""
    b, t, _ = x.shape
    qkv = attention.qkv(x).view(b, t, 3 * attention.heads, attention.head_dim)
    if rotary is not None or attention.qk_norm:
        qk, v = qkv.split([2 * attention.heads, attention.heads], dim=2)
        if attention.qk_norm:
            qk = torch.nn.functional.rms_norm(qk, (attention.head_dim,), eps=1e-6).to(v.dtype)
        qkv = torch.cat([qk if rotary is None else apply_rope(qk, rotary), v], dim=2)
    packed: Tensor = qkv.view(b, t, 3, attention.heads, attention.head_dim)
    return packed


def attend_matmul(attention: SelfAttention, x: Tensor, mask: Any, rotary: Tensor | None, layer_kv: LayerKV | None = None) -> Tensor:
    """`SelfAttention.attend` by `causal_attention`."""
    if mask is not None or layer_kv is not None:
        return SelfAttention.attend(attention, x, mask, rotary, layer_kv)
    return causal_attention(packed_heads(attention, x, rotary), attention.dropout if attention.training else 0.0)


def attend_short(attention: SelfAttention, x: Tensor, mask: Any, rotary: Tensor | None, layer_kv: LayerKV | None = None) -> Tensor:
    """`SelfAttention.attend` by `short_attention`."""
    half = kind_of_products(x) in (torch.bfloat16, torch.float16)
    if mask is not None or layer_kv is not None or not (x.is_cuda and half and x.size(1) <= SHORTEST):
        return SelfAttention.attend(attention, x, mask, rotary, layer_kv)
    from weft.kernels.triton.short_attention import short_attention

    seed = torch.randint(0, 2**31, (1,), device=x.device)
    mixed: Tensor = short_attention(packed_heads(attention, x, rotary), seed, attention.dropout if attention.training else 0.0)[0]
    return mixed


class Core(Implementation):
    """Any attention whose class offers its `attention_fn`."""

    file, slot = "kernels/attention.py", "attention_fn"

    def __init__(self, name: str):
        self.name = name
        self.where = "where no mask is given, else fused" if name == "cudnn" else ""

    def refuses(self, spec: AttentionSpec, use: UsageSpec) -> str:
        if self.name != use.attention:
            instead = self.name == "fused" and cudnn_refuses(spec, use)  # of which only a model knows
            return "" if instead else f"{use.attention} is {'asked for' if use.attention_asked else 'the choice here'}"
        return cudnn_refuses(spec, use) if self.name == "cudnn" else ""

    def install(self, module: Any, use: UsageSpec) -> None:
        gpu = use.machine.device == "cuda"
        core = gpu_attention if gpu and self.name == "fused" else CORES[self.name]
        if core is not fused_attention:
            install(module, self, core)
        if isinstance(module, SelfAttention) and gpu and self.name != "explicit":
            install(module, self, True, slot="document_blocks")


def cudnn_refuses(spec: AttentionSpec, use: UsageSpec) -> str:
    """Why cuDNN's kernel computes no call of this attention; nothing where it does, or where it is not wanted."""
    if use.attention != "cudnn":
        return ""
    if use.machine.device != "cuda":
        return "it is for a GPU"
    if use.precision != "bf16":
        return "it is for 16 bits"
    return f"heads are {spec.head_dim} wide" if spec.packed and (spec.head_dim % 8 or spec.head_dim > 128) else ""


class CausalMatmulAttention(Implementation):
    name, file, slot = "causal matrix products", "kernels/causal_attention.py", "attend"
    where = "where no mask is given"

    def refuses(self, spec: AttentionSpec, use: UsageSpec) -> str:
        if use.attention != "explicit":
            return f"{use.attention} is {'asked for' if use.attention_asked else 'the choice here'}"
        return not_packed(spec)

    def install(self, module: Any, use: UsageSpec) -> None:
        install(module, self, attend_matmul)


class ShortAttention(Implementation):
    name, file, slot = "short attention", "kernels/triton/short_attention.py", "attend"
    where = f"for up to {SHORTEST} tokens of 16 bits where no mask is given"

    def refuses(self, spec: AttentionSpec, use: UsageSpec) -> str:
        if use.machine.device != "cuda":
            return "it is for a GPU"
        if not use.machine.triton:
            return "Triton is not installed"
        if use.attention == "explicit" or use.attention_asked:
            return f"{use.attention} is asked for"
        if use.precision != "bf16":
            return "it is for 16 bits"
        if spec.packed and spec.head_dim not in HEADS:
            return f"heads are {spec.head_dim} wide"
        return not_packed(spec)

    def install(self, module: Any, use: UsageSpec) -> None:
        install(module, self, attend_short)


def not_packed(spec: AttentionSpec) -> str:
    if not spec.packed:
        return f"queries, keys and values of {spec.kind} come of several products"
    if not spec.causal:
        return "it is not causal"
    return "it uses grouped-query attention" if spec.kv_heads != spec.heads else ""


PACKED: tuple[Implementation, ...] = (ShortAttention(), CausalMatmulAttention())
"""In place of all of `SelfAttention.attend`; the core serves calls that they do not."""
ALL_CORES: tuple[Implementation, ...] = tuple(map(Core, CORES))
