"""Causal attention of q, k and v that lie side by side, by cuDNN's kernel, whose gradients lie so as well.

One product makes all three, and their gradients go back through one product each for the weight and the input, which want them side by
side. PyTorch has cuDNN write three tensors, which a pass of its own would have to lay together; here it writes each where it belongs.
Shapes: B batch, T time, D width, H heads, K head width.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from weft.kernels.block_passes import column_sums


@torch.library.custom_op("weft::packed_attention", mutates_args=())
def packed_attention(packed: Tensor, queries: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Causal attention of packed (B, T, 3, H, K), which holds the bias (D,) of queries already: (B, T, D), and what the way back needs."""
    b, t, _, h, k = packed.shape
    found = torch.ops.aten._scaled_dot_product_cudnn_attention(*heads(packed), None, True, 0.0, True, False)
    return found[0].transpose(1, 2).reshape(b, t, h * k), found[1], found[6], found[7]


def heads(packed: Tensor) -> list[Tensor]:
    """Views of packed (B, T, 3, H, K): three (B, H, T, K)."""
    return [part.transpose(1, 2) for part in packed.unbind(2)]


@packed_attention.register_fake
def _(packed: Tensor, queries: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    b, t, _, h, k = packed.shape
    number = packed.new_empty((), dtype=torch.long)
    return packed.new_empty(b, t, h * k), packed.new_empty(b, h, t, 1, dtype=torch.float32), number, torch.empty_like(number)


@torch.library.custom_op("weft::packed_attention_back", mutates_args=())
def packed_attention_back(
    grad_out: Tensor, packed: Tensor, out: Tensor, sums: Tensor, seed: Tensor, offset: Tensor
) -> tuple[Tensor, Tensor]:
    """The gradients of packed (B, T, 3, H, K) and of the queries' bias (D,)."""
    b, t, _, h, k = packed.shape
    grad_out, out = (part.contiguous().view(b, t, h, k).transpose(1, 2) for part in (grad_out, out))
    way = written if writes_in_place() else copied
    back = way(packed, grad_out, out, sums, seed, offset)
    return back, column_sums(back.view(b * t, 3, h * k)[:, 0])


@packed_attention_back.register_fake
def _(grad_out: Tensor, packed: Tensor, out: Tensor, sums: Tensor, seed: Tensor, offset: Tensor) -> tuple[Tensor, Tensor]:
    width = packed[0, 0, 0].numel()
    return torch.empty_like(packed, memory_format=torch.contiguous_format), packed.new_empty(width, dtype=torch.float32)


def _keep(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.like = inputs[1].dtype
    ctx.save_for_backward(inputs[0], *output)
    ctx.set_materialize_grads(False)


def _gradients(ctx: Any, grad_out: Tensor, *_: Any) -> Any:
    back, sums = packed_attention_back(grad_out, *ctx.saved_tensors)
    return back, sums.to(ctx.like)


packed_attention.register_autograd(_gradients, setup_context=_keep)

# -- where the gradients go ---------------------------------------------------------------------------------------------


class Into(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While it is open, a backward pass of attention gets the given rooms where it asks for tensors like q, k and v.

    It takes none to write to; but it asks for them by a call that can be answered here.
    """

    def __init__(self, parts: list[Tensor], rooms: list[Tensor]):
        super().__init__()  # type: ignore[no-untyped-call]
        self.rooms = {part.data_ptr(): room for part, room in zip(parts, rooms, strict=True)}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.ops.aten.empty_like.default and args[0].data_ptr() in self.rooms:
            return self.rooms[args[0].data_ptr()]
        if "attention_backward" not in func.name():
            return func(*args, **kwargs)
        with self:  # what it calls inside shall come here as well
            return func.redispatch(torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA), *args, **kwargs)


def backward(parts: list[Tensor], length: int, grad_out: Tensor, *given: Tensor) -> Any:
    """Gradients like parts (B, H, T, K). By the length PyTorch only tells calls apart, as it remembers how cuDNN is to run each kind."""
    return torch.ops.aten._scaled_dot_product_cudnn_attention_backward(
        grad_out, *parts, *given, None, None, None, length, length, 0.0, True
    )


def written(packed: Tensor, *given: Tensor) -> Tensor:
    """The gradient of packed (B, T, 3, H, K), as cuDNN writes it."""
    back = torch.empty_like(packed, memory_format=torch.contiguous_format)
    parts = heads(packed)
    with Into(parts, heads(back)):
        backward(parts, 0, *given)
    return back


def copied(packed: Tensor, *given: Tensor) -> Tensor:
    """The same, laid together from the three tensors that PyTorch makes."""
    found = backward(heads(packed), packed.size(1), *given)
    return torch.stack([part.transpose(1, 2) for part in found], 2)


@cache
def writes_in_place() -> bool:
    """Whether this PyTorch lets cuDNN write where it is told, and has not then learnt to do so for others, who want three tensors.

    It remembers how to run a call by the layout of q, k and v, not of their gradients. No other says it has length 0.
    """
    packed = torch.arange(256 * 3 * 128, device="cuda").sin().bfloat16().view(1, 256, 3, 2, 64)
    out = torch.ops.aten._scaled_dot_product_cudnn_attention(*heads(packed), None, True, 0.0, True, False)
    given = (out[0].cos(), out[0], out[1], out[6], out[7])
    try:
        ours, usual = written(packed, *given).float(), copied(packed, *given).float()
    except RuntimeError:
        return False
    return bool((ours - usual).norm() <= 0.01 * usual.norm())
