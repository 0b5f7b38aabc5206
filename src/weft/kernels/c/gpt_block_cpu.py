"""A Transformer block in training on a CPU, as one operation with a backward pass of our own.

Its products finish what they find while it is at hand: they add the residual stream, or make GELU and its slope (`products.c`). What is
left between is in `passes.c`. Under autocast to bf16 what products read is kept in bf16, else in fp32. Attention is causal. Shapes: B
batch, T time, D width, H heads, M = B T rows, I and O what goes into a layer and comes out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from weft.kernels.c import passes
from weft.kernels.c.passes import Passes
from weft.kernels.implementation import Implementation, install
from weft.kernels.known import PLAIN_TENSORS, hooked
from weft.kernels.spec import BlockSpec
from weft.kernels.usage import UsageSpec
from weft.nn.block import Block
from weft.nn.state import LayerKV

ACTIVATIONS = ("gelu", "gelu_tanh")


class CPUBlock(Implementation):
    name, file, slot, whole = "C block", "kernels/c/gpt_block_cpu.py", "forward", True
    where = "in training where no mask is given"

    def refuses(self, spec: BlockSpec, use: UsageSpec) -> str:
        attention = spec.attention
        reasons = {
            "it is for a CPU": use.machine.device != "cpu",
            "it is for training": use.mode != "train",
            "the step is compiled": use.compiled,
            f"{use.attention} attention is asked for": use.attention_asked,
            "it is post-norm": spec.order != "pre",
            f"residual dropout {spec.dropout:g} is on": spec.dropout,
            f"attention dropout {attention.dropout:g} is on": attention.dropout,
            f"drop path {spec.drop_path:g} is on": spec.drop_path,
            "attention is not causal": not attention.causal,
            "it uses grouped-query attention": attention.kv_heads != attention.heads,
            "it uses QK-norm": attention.qk_norm,
            f"a window of {spec.window} is a mask": spec.window,
            "the feed-forward layer is gated": spec.gated,
            f"the activation is {spec.activation}": spec.activation not in ACTIVATIONS,
            f"the norms are of another kind ({spec.norm})": spec.norm != "layer",
            "the norms have no scale": spec.norm_weights not in ("all", "scales"),
            "the norms differ in what they add to the variance": spec.eps[0] != spec.eps[1],
            f"linear layers are {spec.linear}": spec.linear != "linear",
            "weights are not in fp32": spec.dtypes != {"float32"},
            "weights do not lie row after row": not spec.contiguous,
            "processes share out the weights": not spec.plain_tensors,
            f"activation checkpointing is {use.checkpointing}": use.checkpointing != "none",
            "no C compiler is found": not passes.passes_for(torch.bfloat16 if use.precision == "bf16" else torch.float32),
        }
        return next((why for why, holds in reasons.items() if holds), "")

    def install(self, module: Any, use: UsageSpec) -> None:
        install(module, self, forward)


def forward(block: Block, x: Tensor, mask: Any = None, rotary: Tensor | None = None, layer_kv: LayerKV | None = None) -> Tensor:
    """`Block.forward`."""
    if block.training and mask is None and layer_kv is None and serves(block, x, rotary):
        return gpt_block_cpu(block, x, rotary)
    return Block.forward(block, x, mask, rotary, layer_kv)


def serves(block: Block, x: Tensor, rotary: Tensor | None) -> bool:
    """Whether a call can be served: x (B, T, D) and weights in fp32 on a CPU, alone or under autocast, rotary (2, T, K)."""
    return (
        not torch.compiler.is_compiling()
        and x.device.type == "cpu"
        and x.dtype == torch.float32
        and x.numel() > 0
        and type(x) in PLAIN_TENSORS
        and (rotary is None or (type(rotary) is Tensor and rotary.dtype == torch.float32 and rotary.shape[:-1] == (2, x.size(1))))
        and all(type(p) in PLAIN_TENSORS and p.dtype == torch.float32 and p.is_contiguous() for p in block_weights(block) if p is not None)
        and not hooked(block)
        and passes.passes_for(kept_type()) is not None
    )


def kept_type() -> torch.dtype:
    """In which what products read is kept."""
    return torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else torch.float32


def block_weights(block: Any) -> list[Tensor | None]:
    """The weights of a block in the order of `BlockWeights`."""
    attention, feed = block.attention, block.feedforward
    parts = (block.norm1, attention.qkv, attention.out, block.norm2, feed.up, feed.down)
    return [tensor for part in parts for tensor in (part.weight, part.bias)]


def gpt_block_cpu(block: Any, x: Tensor, rotary: Tensor | None) -> Tensor:
    """`Block.forward`, x (B, T, D), rotary (2, T, K) -> (B, T, D)."""
    settings = (block.attention.heads, block.norm1.eps, block.feedforward.activation)
    out: Tensor = _Block.apply(x, rotary, passes.passes_for(kept_type()), *settings, *block_weights(block))  # type: ignore[no-untyped-call]
    return out


class BlockWeights(NamedTuple):
    """The weights of a block, or their gradients; None for a bias that is not there, or a gradient that nobody wants."""

    scale1: Any
    shift1: Any
    qkv: Any
    qkv_bias: Any
    out: Any
    out_bias: Any
    scale2: Any
    shift2: Any
    up: Any
    up_bias: Any
    down: Any
    down_bias: Any


class Activations(NamedTuple):
    """What the backward pass of a block needs of its forward pass."""

    rows: Tensor
    normed1: Tensor
    mean1: Tensor
    rate1: Tensor
    qkv: Tensor
    mixed: Tensor
    middle: Tensor
    normed2: Tensor
    mean2: Tensor
    rate2: Tensor
    act_grad: Tensor
    active: Tensor


class _Block(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, rotary: Tensor | None, c: Passes, heads: int, eps: float, activation: str, *weights: Tensor | None
    ) -> Tensor:
        rotary, rows = None if rotary is None else rotary.contiguous(), x.reshape(-1, x.size(2)).contiguous()
        out = torch.empty_like(x, memory_format=torch.contiguous_format)  # no view, as FSDP wants none from a block
        kept = block_forward(c, rows, out.view_as(rows), BlockWeights(*weights), x.size(1), heads, eps, activation, rotary)
        ctx.save_for_backward(*weights, *kept, rotary)
        ctx.passes, ctx.shape = c, x.shape
        return out

    @staticmethod
    @once_differentiable  # type: ignore[misc]
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        number = len(BlockWeights._fields)
        *saved, rotary = ctx.saved_tensors
        w, kept = BlockWeights(*saved[:number]), Activations(*saved[number:])
        grads = BlockGrads(ctx.passes, ctx.needs_input_grad[-number:])
        grad_out = gradients[0].reshape(-1, ctx.shape[-1]).contiguous()
        out = block_backward(ctx.passes, grad_out, w, grads, kept, ctx.shape, rotary)
        return out.view(ctx.shape), None, None, None, None, None, *(grads.get(name) for name in BlockWeights._fields)


class BlockGrads(dict[str, Tensor]):
    """The gradients of a block's weights, of those that are wanted."""

    def __init__(self, c: Passes, wanted: Sequence[bool]):
        self.c, self.wanted = c, {name for name, want in zip(BlockWeights._fields, wanted, strict=True) if want}

    def layer(self, name: str, grad_out: Tensor, x: Tensor, sums: Tensor) -> None:
        """What a layer's output's gradient (M, O), with the sums (O,) of its columns, and its input (M, I) make of its weight (O, I) and
        bias (O,)."""
        if name in self.wanted:
            self[name] = self.c.rows_product(grad_out, x)
        if f"{name}_bias" in self.wanted:
            self[f"{name}_bias"] = sums

    def norm(
        self, number: int, grad_out: Tensor, x: Tensor, mean: Tensor, rate: Tensor, w: BlockWeights, added: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The gradient of x (M, D) from that of its norm, whose weights get theirs, plus what is added, and its sums (D,)."""
        names = (f"scale{number}", f"shift{number}")
        out, *changes, sums = self.c.norm_back(grad_out, x, mean, rate, getattr(w, names[0]), added)
        self.update({name: value for name, value in zip(names, changes, strict=True) if name in self.wanted})
        return out, sums


def block_forward(
    c: Passes, rows: Tensor, out: Tensor, w: BlockWeights, t: int, heads: int, eps: float, activation: str, rotary: Tensor | None
) -> Activations:
    """What a block makes of sequences' rows (M, D) goes to `out`; what the backward pass needs is returned."""
    d = rows.size(1)
    normed1, mean1, rate1 = c.norm(rows, w.scale1, w.shift1, eps)
    qkv = c.product(normed1, w.qkv.t(), w.qkv_bias, "round")[0].view(-1, t, 3, heads, d // heads)
    mixed = c.attend(qkv, rotary).view(-1, d)
    middle, _ = c.product(mixed, w.out.t(), w.out_bias, "plus", rows)
    normed2, mean2, rate2 = c.norm(middle, w.scale2, w.shift2, eps)
    act_grad, active = c.product(normed2, w.up.t(), w.up_bias, activation)
    c.product(active, w.down.t(), w.down_bias, "plus", middle, out=out)
    return Activations(rows, normed1, mean1, rate1, qkv, mixed, middle, normed2, mean2, rate2, act_grad, active)


def block_backward(
    c: Passes, grad_out: Tensor, w: BlockWeights, grads: BlockGrads, kept: Activations, shape: tuple[int, ...], rotary: Tensor | None
) -> Tensor:
    """The gradient of those rows (M, D) from that of what was made of them; those of the weights go to `grads`."""
    grads.layer("down", grad_out, kept.active, c.columns(grad_out))
    inner, sums = c.product(grad_out, w.down, then="times", other=kept.act_grad)
    grads.layer("up", inner, kept.normed2, sums)
    grad_residual, sums = grads.norm(2, c.product(inner, w.up)[0], kept.middle, kept.mean2, kept.rate2, w, grad_out)
    grads.layer("out", grad_residual, kept.mixed, sums)
    dqkv, sums = c.attend_back(c.product(grad_residual, w.out, then="round")[0].view(shape), kept.qkv, rotary)
    packed = dqkv.view(len(grad_out), -1)
    grads.layer("qkv", packed, kept.normed1, sums)
    return grads.norm(1, c.product(packed, w.qkv)[0], kept.rows, kept.mean1, kept.rate1, w, grad_residual)[0]
