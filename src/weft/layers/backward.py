"""Layer norm beside a residual stream, and GELU behind a bias, whose backward passes are kernels of our own on a GPU.

The forward passes are plain operations, which a compiler fuses with what stands around them. The backward passes are opaque to it:
one kernel each that also sums over the rows for scale, shift or bias. Shapes: N rows, D width.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@torch.library.custom_op("weft::norm_back", mutates_args=())
def norm_back(onward: Tensor | None, change: Tensor, x: Tensor, mean: Tensor, rate: Tensor, scale: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of x (N, D), scale and shift (D,) from those of the norm and, where given, of the stream that goes past it."""
    if x.is_cuda:
        from weft.layers import backward_kernels

        return backward_kernels.norm_back(onward, change, x, mean, rate, scale)
    exact = change.float()
    unit = (x.float() - mean[:, None]) * rate[:, None]
    d = exact * scale.float()
    found = (d - d.mean(1, keepdim=True) - unit * (d * unit).mean(1, keepdim=True)) * rate[:, None]
    found = found if onward is None else found + onward.float()
    return found.to(x.dtype), (exact * unit).sum(0), exact.sum(0)


@norm_back.register_fake
def _(onward: Tensor | None, change: Tensor, x: Tensor, mean: Tensor, rate: Tensor, scale: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    sums = x.new_empty(2, x.size(1), dtype=torch.float32)
    return torch.empty_like(x), sums[0].clone(), sums[1].clone()


@torch.library.custom_op("weft::gelu_back", mutates_args=())
def gelu_back(change: Tensor, x: Tensor, bias: Tensor, tanh: bool) -> tuple[Tensor, Tensor]:
    """Gradients of x (N, D) and of the bias (D,) of gelu(x + bias)."""
    if x.is_cuda:
        from weft.layers import backward_kernels

        return backward_kernels.gelu_back(change, x, bias, tanh)
    found = torch.ops.aten.gelu_backward(change.float(), x.float() + bias.float(), approximate="tanh" if tanh else "none")
    return found.to(x.dtype), found.sum(0)


@gelu_back.register_fake
def _(change: Tensor, x: Tensor, bias: Tensor, tanh: bool) -> tuple[Tensor, Tensor]:
    return torch.empty_like(x), x.new_empty(x.size(1), dtype=torch.float32)


class BesideNorm(torch.autograd.Function):
    """x -> x and its norm: the gradients of both meet in one kernel."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: Tensor, shift: Tensor | None, eps: float, kind: torch.dtype) -> tuple[Tensor, Tensor]:
        exact = x.float()
        spread, mean = torch.var_mean(exact, -1, correction=0, keepdim=True)
        rate = (spread + eps).rsqrt()
        normed = (exact - mean) * rate * scale
        normed = (normed if shift is None else normed + shift).to(kind)
        ctx.save_for_backward(x, mean, rate, scale)
        ctx.shifted = shift is not None
        return x.view_as(x), normed

    @staticmethod
    def backward(ctx: Any, onward: Tensor, change: Tensor) -> tuple[Tensor | None, ...]:
        x, mean, rate, scale = ctx.saved_tensors
        width = x.size(-1)
        laid = [tensor.contiguous().view(-1, width) for tensor in (onward, change, x)]
        back, by_scale, by_shift = norm_back(*laid, mean.flatten(), rate.flatten(), scale)
        return back.view(x.shape), by_scale.to(scale.dtype), by_shift.to(scale.dtype) if ctx.shifted else None, None, None


def beside_norm(x: Tensor, norm: nn.LayerNorm) -> tuple[Tensor, Tensor]:
    """x (..., D) as it goes on, and its norm in the precision of the products."""
    device = x.device.type
    kind = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype
    stream, normed = BesideNorm.apply(x, norm.weight, norm.bias, norm.eps, kind)  # type: ignore[no-untyped-call]
    return stream, normed


class BiasGELU(torch.autograd.Function):
    """gelu(x + bias)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor, tanh: bool) -> Tensor:
        ctx.save_for_backward(x, bias)
        ctx.tanh = tanh
        return F.gelu(x.float() + bias, approximate="tanh" if tanh else "none").to(x.dtype)

    @staticmethod
    def backward(ctx: Any, change: Tensor) -> tuple[Tensor | None, ...]:
        x, bias = ctx.saved_tensors
        width = x.size(-1)
        back, sums = gelu_back(change.contiguous().view(-1, width), x.contiguous().view(-1, width), bias, ctx.tanh)
        return back.view(x.shape), sums.to(bias.dtype), None


def bias_gelu(x: Tensor, bias: Tensor, tanh: bool) -> Tensor:
    """x (..., D), bias (D,) -> gelu(x + bias)."""
    found: Tensor = BiasGELU.apply(x, bias, tanh)  # type: ignore[no-untyped-call]
    return found
