"""What a block does in training on a CPU between its products in fp32: in C (`passes.c`) where the machine has a compiler, else by torch.

Shapes: M rows, N columns, B batch, T time, H heads, K head width.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from weft.layers import c_source, causal_attention

SOURCE = Path(__file__).with_name("passes.c")
Address, Number = ctypes.c_void_p, ctypes.c_int64
TAKEN = {
    "gelu": [Address] * 2 + [Number] * 2,
    "gelu_tanh": [Address] * 2 + [Number] * 2,
    "columns": [Address] * 4 + [Number] * 3,
    "norm": [Address] * 7 + [ctypes.c_double] + [Number] * 3,
    "norm_back": [Address] * 10 + [Number] * 3,
    "attend": [Address] * 3 + [Number] * 5,
    "attend_back": [Address] * 4 + [Number] * 5,
    "room": [Number] * 2,
}
"""What each function in C takes."""


@cache
def _functions() -> Any:
    found = c_source.load(SOURCE)
    if found is not None:
        for name, taken in TAKEN.items():
            function = getattr(found, name)
            function.argtypes, function.restype = taken, Number if name == "room" else None
    return found


def functions(*given: Tensor) -> Any:
    """The functions in C, where there are any and all that they are given lies as they read it; else None."""
    plain = all(tensor.dtype == torch.float32 and tensor.is_contiguous() for tensor in given)
    return _functions() if plain else None


def gelu(x: Tensor, approximate: str) -> tuple[Tensor, Tensor]:
    """GELU of x, and what its backward pass needs, for which x itself is used up."""
    c = functions(x)
    if c is None:
        return F.gelu(x, approximate=approximate), x
    out, function = torch.empty_like(x), c.gelu if approximate == "none" else c.gelu_tanh
    function(x.data_ptr(), out.data_ptr(), x.numel(), torch.get_num_threads())
    return out, x


def gelu_back(change: Tensor, kept: Tensor, approximate: str) -> tuple[Tensor, Tensor | None]:
    """The gradient of x (M, N) from that of its GELU, which is used up, and the sums (N,) of its columns if they are known."""
    if functions(change, kept) is None:
        return torch.ops.aten.gelu_backward(change, kept, approximate=approximate), None
    return change, columns(change, kept)


def columns(x: Tensor, slope: Tensor | None = None) -> Tensor:
    """The sums (N,) of the columns of x (M, N), which is first multiplied by slopes where there are any."""
    c = functions(x)
    if c is None:
        return x.sum(0)
    (m, n), threads = x.shape, torch.get_num_threads()
    out, space = x.new_empty(n), x.new_empty(threads * 2 * n)
    c.columns(x.data_ptr(), None if slope is None else slope.data_ptr(), out.data_ptr(), space.data_ptr(), m, n, threads)
    return out


def norm(x: Tensor, added: Tensor | None, scale: Tensor, shift: Tensor | None, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """x (M, N), to which others are added in place where there are any, under a norm; means and rates (M, 1)."""
    given = [tensor for tensor in (x, added, scale, shift) if tensor is not None]
    c = functions(*given)
    if c is None:
        return torch.native_layer_norm(x if added is None else x.add_(added), [x.size(1)], scale, shift, eps)
    out, mean, rate = torch.empty_like(x), x.new_empty(len(x), 1), x.new_empty(len(x), 1)
    places = [None if tensor is None else tensor.data_ptr() for tensor in (x, added, scale, shift, out, mean, rate)]
    c.norm(*places, eps, *x.shape, torch.get_num_threads())
    return out, mean, rate


def norm_back(
    change: Tensor, x: Tensor, mean: Tensor, rate: Tensor, scale: Tensor, shift: Tensor | None, added: Tensor, wanted: list[bool]
) -> tuple[Tensor, Any, Any, Tensor | None]:
    """The gradient of x (M, N) from that of its norm, which is used up, plus what is added; those of scale and shift, and the sums (N,) of
    the first's columns if they are known. wanted: as `native_layer_norm_backward` has it."""
    c = functions(change, x, mean, rate, scale, added)
    if c is None:
        out, *found = torch.ops.aten.native_layer_norm_backward(change, x, [x.size(1)], mean, rate, scale, shift, wanted)
        return out.add_(added), *found, None
    (m, n), threads = x.shape, torch.get_num_threads()
    dscale, dshift, sums, space = (x.new_empty(size) for size in (n, n, n, threads * 6 * n))
    c.norm_back(*(tensor.data_ptr() for tensor in (change, x, mean, rate, scale, added, dscale, dshift, sums, space)), m, n, threads)
    return change, dscale, dshift, sums


def attend(qkv: Tensor) -> tuple[Tensor, list[Tensor]]:
    """What the heads of qkv (B, T, 3, H, K) find (B, T, H K), and what the backward pass needs: qkv alone if it is C's."""
    c = functions(qkv)
    if c is None:
        out, laid, weights, _ = causal_attention.attend(qkv)
        return out, [laid, *weights]
    b, t, _, h, k = qkv.shape
    threads = torch.get_num_threads()
    out, space = qkv.new_empty(b, t, h * k), qkv.new_empty(threads * c.room(t, k))
    c.attend(qkv.data_ptr(), out.data_ptr(), space.data_ptr(), b, t, h, k, threads)
    return out, [qkv]


def attend_back(change: Tensor, kept: Sequence[Tensor]) -> Tensor:
    """The gradient of qkv (B, T, 3, H, K) from that of what the heads found (B, T, H K)."""
    qkv, *weights = kept
    c = functions(change, qkv)
    if weights or c is None:
        return causal_attention.attend_back(change, qkv, weights, [])
    b, t, _, h, k = qkv.shape
    threads = torch.get_num_threads()
    out, space = torch.empty_like(qkv), change.new_empty(threads * c.room(t, k))
    c.attend_back(change.data_ptr(), qkv.data_ptr(), out.data_ptr(), space.data_ptr(), b, t, h, k, threads)
    return out
