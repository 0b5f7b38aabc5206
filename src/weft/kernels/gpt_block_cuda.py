"""A wide Transformer block in training: norms, GELU and attention with passes of our own, products by the fastest kernels.

Shapes: B batch, T time, D width, N columns.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.kernels.attention import served
from weft.kernels.block_passes import kind_of_products, residual_and_norm
from weft.kernels.block_products import feed_forward
from weft.kernels.block_products import product as cublaslt_product
from weft.kernels.implementation import Implementation, install
from weft.kernels.packed_attention import packed_attention
from weft.kernels.spec import BlockSpec
from weft.kernels.usage import UsageSpec
from weft.nn.attention import SelfAttention
from weft.nn.block import Block
from weft.nn.checkpointed import Checkpointing, checkpointed
from weft.nn.state import LayerKV

WIDEST = 8192


class Settings(NamedTuple):
    parts: frozenset[str] = UsageSpec().parts
    """Which of these have kernels of their own."""
    recompute: bool = False
    """Whether GELU's result is not kept for the backward pass."""
    packed: bool = False
    """Whether attention is cuDNN's, which may read q, k and v as they lie side by side."""


DEFAULT = Settings()


class CUDABlock(Implementation):
    name, file, slot = "CUDA block", "kernels/gpt_block_cuda.py", "forward"
    where = "in training, in bf16"

    def refuses(self, spec: BlockSpec, use: UsageSpec) -> str:
        width = spec.attention.width
        reasons = {
            "it is for a GPU": use.machine.device != "cuda",
            "Triton is not installed": not use.machine.triton,
            "it is for training": use.mode != "train",
            "matmuls are not in bf16": use.precision != "bf16",
            "all of its parts were taken away": not use.parts,
            "it is post-norm": spec.order != "pre",
            f"drop path {spec.drop_path:g} is on": spec.drop_path,
            "the feed-forward layer is gated": spec.gated,
            f"the activation is {spec.activation}": spec.activation not in ("gelu", "gelu_tanh"),
            f"the norms are of another kind ({spec.norm})": spec.norm != "layer",
            "a bias or a norm's weight is missing": spec.norm_weights != "all" or spec.bias != "all",
            f"linear layers are {spec.linear}": spec.linear != "linear",
            "weights do not lie row after row": not spec.contiguous,
            "processes share out the weights": not spec.plain_tensors,
            f"a width of {width} or {spec.ffn_width} is no multiple of 64": width % 64 or spec.ffn_width % 64,
            f"a width of {width} is above {WIDEST}": width > WIDEST,
        }
        return next((why for why, holds in reasons.items() if holds), "")

    def install(self, module: Any, use: UsageSpec) -> None:
        install(module, self, forward_of(use))


def forward_of(use: UsageSpec) -> Any:
    """`Block.forward` where its conditions hold, else the plain one; both keep for the backward pass what they are told to."""
    settings = Settings(use.parts, use.checkpointing == "selective", use.attention == "cudnn")
    kept: Checkpointing = "full" if use.checkpointing == "full" else "none"  # it sees to "selective" itself

    def forward(block: Block, x: Tensor, mask: Any = None, rotary: Tensor | None = None, layer_kv: LayerKV | None = None) -> Tensor:
        if block.training and layer_kv is None and supports_shape(x, block.feedforward.up.out_features):  # type: ignore[union-attr, arg-type]
            return checkpointed(kept, gpt_block_cuda, block, x, mask, rotary, settings)
        return checkpointed(use.checkpointing, Block.forward, block, x, mask, rotary, layer_kv)

    return forward


def supports_shape(x: Tensor, ffn_width: int) -> bool:
    """Whether these sizes are such as the kernels cut into tiles."""
    d = x.size(-1)
    return x.is_cuda and x.dtype == torch.bfloat16 and d % 64 == ffn_width % 64 == 0 and d <= WIDEST and x.numel() // d * ffn_width < 2**31


def gpt_block_cuda(block: Any, x: Tensor, mask: Any, rotary: Tensor | None, settings: Settings = DEFAULT) -> Tensor:
    """`Block.forward`, x (B, T, D) -> (B, T, D)."""
    attention, feed, parts = block.attention, block.feedforward, settings.parts
    own, drops = "norm" in parts, block.dropout.share and block.training
    product = tuned_linear if "products" in parts else plain_linear
    summed = own and not drops  # the stream's gradient is that of what was added to it
    joins = not drops and x.dtype == kind_of_products(x)  # a product adds what it finds to the stream
    x, normed = residual_and_norm(x, block.norm1) if own else (x, block.norm1(x))
    packed = packs(attention, normed, mask, rotary, settings)
    mixed = packed_attend(attention, normed, product) if packed else attention.attend(normed, mask, rotary)
    bias = value_bias(attention) if packed else attention.out.bias
    found = product(attention.out, mixed, None if summed else bias, x if joins else None)
    x = found if joins else x + block.dropout(found)
    biases = (bias, feed.down.bias) if summed else (None, None)
    x, normed = residual_and_norm(x, block.norm2, *biases) if own else (x, block.norm2(x))
    bias = None if summed else feed.down.bias
    found = mlp(feed, normed, bias, settings, x if joins else None)
    return found if joins else x + block.dropout(found)


def tuned_linear(layer: nn.Linear, x: Tensor, bias: Tensor | None = None, onto: Tensor | None = None) -> Tensor:
    """The layer of x, added to `onto`; the bias has its gradient from here only where it is given."""
    found: Tensor = cublaslt_product(*alike(x, layer.weight, layer.bias.detach() if bias is None else bias), onto)
    return found


def plain_linear(layer: nn.Linear, x: Tensor, bias: Tensor | None = None, onto: Tensor | None = None) -> Tensor:
    """The same by PyTorch's own choice."""
    plain = F.linear(x, layer.weight, layer.bias.detach() if bias is None else bias)
    return plain if onto is None else onto + plain


def alike(x: Tensor, *parameters: Tensor) -> list[Tensor]:
    """x in the precision of the products, and parameters in that of x, as `F.linear` takes them."""
    return [part.to(kind_of_products(x)) for part in (x, *parameters)]


def mlp(feed: Any, x: Tensor, bias: Tensor | None, settings: Settings, onto: Tensor | None) -> Tensor:
    """A feed-forward network: x (B, T, D) -> (B, T, D); the last bias and `onto` as in `tuned_linear`."""
    tanh = feed.activation == "gelu_tanh"
    if "feed" not in settings.parts:
        product = tuned_linear if "products" in settings.parts else plain_linear
        return product(feed.down, F.gelu(feed.up(x), approximate="tanh" if tanh else "none"), bias, onto)
    last = feed.down.bias.detach() if bias is None else bias
    given = alike(x, feed.up.weight, feed.up.bias.detach(), feed.down.weight, last)
    found: Tensor = feed_forward(*given, onto, feed.up.bias, tanh, settings.recompute)[0]
    return found


def packs(attention: SelfAttention, x: Tensor, mask: Any, rotary: Tensor | None, settings: Settings) -> bool:
    """Whether cuDNN's kernel serves q, k and v of x (B, T, D) as they lie side by side."""
    whole = mask is None and rotary is None and not attention.qk_norm and attention.kv_heads == attention.heads
    dropped = attention.dropout and attention.training
    usual = attention.causal and settings.packed and not dropped and x.size(1) > 128
    heads = x.view(*x.shape[:2], attention.heads, attention.head_dim)
    return "attention" in settings.parts and whole and usual and served(heads, heads, causal=False)


def packed_attend(attention: SelfAttention, x: Tensor, product: Any) -> Tensor:
    """`SelfAttention.attend`, with gradients for the queries' bias only.

    That of the keys has none: it adds the same to all scores of a query. That of the values has it from `value_bias`.
    """
    packed = product(attention.qkv, x).view(*x.shape[:2], 3, attention.heads, attention.head_dim)
    found: Tensor = packed_attention(packed, attention.qkv.bias.chunk(3)[0])[0]
    return found


def value_bias(attention: SelfAttention) -> Tensor:
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
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor, Tensor, None]:  # type: ignore[override]
        (weight,) = ctx.saved_tensors
        with torch.autocast(grad_out.device.type, enabled=False):
            return grad_out, grad_out @ weight.detach().to(grad_out.dtype), None
