"""A wide Transformer block in training: norms, GELU and attention with passes of our own, products by the fastest kernels.

Shapes: B batch, T time, D width, N columns.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.kernels.block_passes import beside_norm, kind_of_products
from weft.kernels.block_products import feed_forward
from weft.kernels.block_products import product as tuned_product
from weft.kernels.packed_attention import packed_attention
from weft.nn.attention import SelfAttention, served

PIECES = {"norm", "feed", "attention", "products"}
"""Which of these are used; a benchmark may take some away."""
WIDEST = 8192


def fits(block: Any, x: Tensor) -> bool:
    """Whether the kernels serve this block and stream (B, T, D): GPT-2's kind of block with biases, on a GPU."""
    feed, linear = block.feedforward, [block.attention.qkv, block.attention.out]
    linear += [getattr(feed, "up", None), getattr(feed, "down", None)]
    return (
        bool(PIECES)
        and block.order == "pre"
        and not block.skipped.share
        and getattr(feed, "activation", "") in ("gelu", "gelu_tanh")
        and type(block.attention) is SelfAttention
        and all(isinstance(norm, nn.LayerNorm) for norm in (block.norm1, block.norm2))
        and all(type(layer) is nn.Linear for layer in linear)
        and all(part.weight is not None and part.bias is not None for part in (block.norm1, block.norm2, *linear))
        and suits(x, feed.up.out_features)
    )


def suits(x: Tensor, inner: int) -> bool:
    """Whether these sizes are such as the kernels cut into tiles."""
    d = x.size(-1)
    return x.is_cuda and x.dtype == torch.bfloat16 and d % 64 == inner % 64 == 0 and d <= WIDEST and x.numel() // d * inner < 2**31


def gpt_block_cuda(block: Any, x: Tensor, mask: Any, rotary: Tensor | None) -> Tensor:
    """`Block.compute`, x (B, T, D) -> (B, T, D)."""
    attention, feed = block.attention, block.feedforward
    own, drops = "norm" in PIECES, block.dropout.share and block.training
    summed = own and not drops  # the stream's gradient is that of what was added to it
    joins = not drops and x.dtype == kind_of_products(x)  # a product adds what it finds to the stream
    x, normed = beside_norm(x, block.norm1) if own else (x, block.norm1(x))
    packed = packs(attention, normed, mask, rotary)
    mixed = packed_mix(attention, normed) if packed else attention.mix(normed, mask, rotary)
    bias = beside_values(attention) if packed else attention.out.bias
    found = product(attention.out, mixed, None if summed else bias, x if joins else None)
    x = found if joins else x + block.dropout(found)
    biases = (bias, feed.down.bias) if summed else (None, None)
    x, normed = beside_norm(x, block.norm2, *biases) if own else (x, block.norm2(x))
    again = block.activations_backend == "products"
    found = fed(feed, normed, None if summed else feed.down.bias, again, x if joins else None)
    return found if joins else x + block.dropout(found)


def product(layer: nn.Linear, x: Tensor, bias: Tensor | None = None, onto: Tensor | None = None) -> Tensor:
    """The layer of x, added to `onto`; the bias has its gradient from here only where it is given."""
    bias = layer.bias.detach() if bias is None else bias
    if "products" not in PIECES:
        plain = F.linear(x, layer.weight, bias)
        return plain if onto is None else onto + plain
    found: Tensor = tuned_product(*alike(x, layer.weight, bias), onto)
    return found


def alike(x: Tensor, *parameters: Tensor) -> list[Tensor]:
    """x in the precision of the products, and parameters in that of x, as `F.linear` takes them."""
    return [part.to(kind_of_products(x)) for part in (x, *parameters)]


def fed(feed: Any, x: Tensor, bias: Tensor | None, again: bool, onto: Tensor | None) -> Tensor:
    """A feed-forward network: x (B, T, D) -> (B, T, D); the last bias and `onto` as in `product`. again: GELU's result is not kept."""
    tanh = feed.activation == "gelu_tanh"
    if "feed" not in PIECES:
        return product(feed.down, F.gelu(feed.up(x), approximate="tanh" if tanh else "none"), bias, onto)
    last = feed.down.bias.detach() if bias is None else bias
    given = alike(x, feed.up.weight, feed.up.bias.detach(), feed.down.weight, last)
    found: Tensor = feed_forward(*given, onto, feed.up.bias, tanh, again)[0]
    return found


def packs(attention: SelfAttention, x: Tensor, mask: Any, rotary: Tensor | None) -> bool:
    """Whether cuDNN's kernel serves q, k and v of x (B, T, D) as they lie side by side."""
    whole = mask is None and rotary is None and not attention.norm_heads and attention.groups == attention.heads
    dropped = attention.dropout and attention.training
    usual = attention.causal and attention.attention_backend == "cudnn" and not dropped and x.size(1) > 128
    heads = x.view(*x.shape[:2], attention.heads, attention.head)
    return "attention" in PIECES and whole and usual and served(heads, heads, causal=False)


def packed_mix(attention: SelfAttention, x: Tensor) -> Tensor:
    """`SelfAttention.mix`, with gradients for the queries' bias only.

    That of the keys has none: it adds the same to all scores of a query. That of the values has it from `beside_values`.
    """
    packed = product(attention.qkv, x).view(*x.shape[:2], 3, attention.heads, attention.head)
    found: Tensor = packed_attention(packed, attention.qkv.bias.chunk(3)[0])[0]
    return found


def beside_values(attention: SelfAttention) -> Tensor:
    """The bias (D,) of `out`, through which that of the values has its gradient too.

    A query's weights sum to 1, so the values' bias is contained in all that attention finds, and `out` carries it on.
    """
    out = attention.out
    found: Tensor = _Carried.apply(out.bias, attention.qkv.bias.chunk(3)[2], out.weight)  # type: ignore[no-untyped-call]
    return found


class _Carried(torch.autograd.Function):
    """The first bias; the gradient of the second is what a product with the weight carries of it."""

    @staticmethod
    def forward(ctx: Any, bias: Tensor, values: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(weight)
        return bias.view_as(bias)

    @staticmethod
    def backward(ctx: Any, change: Tensor) -> tuple[Tensor, Tensor, None]:  # type: ignore[override]
        (weight,) = ctx.saved_tensors
        with torch.autocast(change.device.type, enabled=False):
            return change, change @ weight.detach().to(change.dtype), None
