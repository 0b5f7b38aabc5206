"""The products of a wide Transformer block in training, as operations that a compiler leaves as they are, with gradients of their own.

Each is made by the fastest way that its shape has (`cublaslt_matmul`). The two of a feed-forward network are one operation, with GELU in
the first of them: going back, one pass makes the gradient before GELU, its sum for the bias and, where it was not kept, GELU once more.
Without a GPU all is plain arithmetic. Shapes: B batch, T time, M = B T rows, D width, I inner width, N outputs.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from weft.kernels.block_passes import gelu, gelu_back
from weft.kernels.cuda.cublaslt_matmul import multiply, multiply_gelu

# -- a linear layer -----------------------------------------------------------------------------------------------------


@torch.library.custom_op("weft::product", mutates_args=())
def product(x: Tensor, weight: Tensor, bias: Tensor, onto: Tensor | None) -> Tensor:
    """x (..., D), weight (N, D), bias (N,), all of one kind -> (..., N), added to `onto` (..., N)."""
    return multiply(rows_of(x), weight.t(), bias, plus=rows_or_none(onto)).view(*x.shape[:-1], len(weight))


@product.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor, onto: Tensor | None) -> Tensor:
    return x.new_empty(*x.shape[:-1], len(weight))


@torch.library.custom_op("weft::product_back", mutates_args=())
def product_back(grad_out: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of x and of weight."""
    grad_out, rows = rows_of(grad_out), rows_of(x)
    return multiply(grad_out, weight).view(x.shape), multiply(grad_out.t(), rows)


@product_back.register_fake
def _(grad_out: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), weight.new_empty(weight.shape)


def rows_of(x: Tensor) -> Tensor:
    return x.contiguous().view(-1, x.size(-1))


def rows_or_none(x: Tensor | None) -> Tensor | None:
    return None if x is None else rows_of(x)


def _keep(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs[:2])


def _gradients(ctx: Any, grad_out: Tensor) -> Any:
    back, by_weight = product_back(grad_out, *ctx.saved_tensors)
    return back, by_weight, summed(grad_out) if ctx.needs_input_grad[2] else None, grad_out if ctx.needs_input_grad[3] else None


def summed(grad_out: Tensor) -> Tensor:
    """The gradient of a bias that nothing else makes."""
    return grad_out.float().flatten(0, -2).sum(0).to(grad_out.dtype)


product.register_autograd(_gradients, setup_context=_keep)

# -- a feed-forward network ---------------------------------------------------------------------------------------------


@torch.library.custom_op("weft::feed_forward", mutates_args=())
def feed_forward(
    x: Tensor,
    up: Tensor,
    up_bias: Tensor,
    down: Tensor,
    down_bias: Tensor,
    onto: Tensor | None,
    bias_grad_to: Tensor,
    tanh: bool,
    recompute: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """x (..., D), weights (I, D) and (D, I) with biases -> (..., D), added to `onto`, and what is kept: GELU's result (M, I), unless it is
    made again, and its input (M, I). learner: what has the gradient of the first bias, unrounded. tanh: GELU by its approximation."""
    rows = rows_of(x)
    if tanh:
        inner, before = multiply_gelu(rows, up.t(), up_bias, partial(_up, rows, up, up_bias, tanh))
    else:
        inner, before = (x.new_empty(len(rows), len(up)) for _ in range(2))
        _up(rows, up, up_bias, tanh, inner, before)
    out = multiply(inner, down.t(), down_bias, plus=rows_or_none(onto)).view(x.shape)
    return out, inner.new_empty(0) if recompute else inner, before


def _up(x: Tensor, weight: Tensor, bias: Tensor, tanh: bool, inner: Tensor, before: Tensor) -> None:
    multiply(x, weight.t(), bias, out=before)
    gelu(before, inner, tanh)


@feed_forward.register_fake
def _(
    x: Tensor,
    up: Tensor,
    up_bias: Tensor,
    down: Tensor,
    down_bias: Tensor,
    onto: Tensor | None,
    bias_grad_to: Tensor,
    tanh: bool,
    recompute: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    before = x.new_empty(x.numel() // x.size(-1), len(up))
    return x.new_empty(x.shape), x.new_empty(0) if recompute else torch.empty_like(before), before


@torch.library.custom_op("weft::feed_forward_back", mutates_args=())
def feed_forward_back(
    grad_out: Tensor, x: Tensor, up: Tensor, down: Tensor, inner: Tensor, before: Tensor, tanh: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of x, of up and its bias, and of down."""
    grad_out, rows = rows_of(grad_out), rows_of(x)
    middle, recompute = multiply(grad_out, down), None if inner.numel() else torch.empty_like(before)
    sums = gelu_back(middle, before, tanh, recompute)
    by_down = multiply(grad_out.t(), inner if recompute is None else recompute)
    return multiply(middle, up).view(x.shape), multiply(middle.t(), rows), sums, by_down


@feed_forward_back.register_fake
def _(
    grad_out: Tensor, x: Tensor, up: Tensor, down: Tensor, inner: Tensor, before: Tensor, tanh: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    sums = up.new_empty(len(up), dtype=torch.float32)
    return x.new_empty(x.shape), up.new_empty(up.shape), sums, down.new_empty(down.shape)


def _keep_both(ctx: Any, inputs: Any, output: Any) -> None:
    x, up, _, down, _, _, bias_grad_to, ctx.tanh, _ = inputs
    ctx.like = bias_grad_to.dtype
    ctx.save_for_backward(x, up, down, *output[1:])
    ctx.set_materialize_grads(False)


def _gradients_of_both(ctx: Any, grad_out: Tensor, *_: Any) -> Any:
    back, by_up, sums, by_down = feed_forward_back(grad_out, *ctx.saved_tensors, ctx.tanh)
    by_bias = summed(grad_out) if ctx.needs_input_grad[4] else None
    return back, by_up, None, by_down, by_bias, grad_out if ctx.needs_input_grad[5] else None, sums.to(ctx.like), None, None


feed_forward.register_autograd(_gradients_of_both, setup_context=_keep_both)
