"""What a block does in training on a CPU in fp32, in C (`products.c`, `passes.c`), where the machine has a compiler.

What is given lies in memory row after row. Shapes: M rows, N columns, K what a product sums over; B batch, T time, H heads, W head width.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from weft.layers import c_source

Address, Number = ctypes.c_void_p, ctypes.c_int64
TAKEN = {
    "products.c": {
        "product": [Number] + [Address] * 2 + [Number] * 2 + [Address] * 5 + [Number] * 4,
        "product_room": [Number] * 3,
    },
    "passes.c": {
        "columns": [Address] * 3 + [Number] * 3,
        "norm": [Address] * 6 + [ctypes.c_double] + [Number] * 3,
        "norm_back": [Address] * 10 + [Number] * 3,
        "attend": [Address] * 3 + [Number] * 5,
        "attend_back": [Address] * 5 + [Number] * 5,
        "room": [Number] * 2,
    },
}
"""What each function in C takes."""
THEN = {"nothing": 0, "plus": 1, "times": 2, "gelu": 3, "gelu_tanh": 4}
"""What may happen to what a product finds, with its number in `products.c`."""


@cache
def functions() -> dict[str, Any]:
    """All functions in C; none without a compiler."""
    found = {}
    for source, functions in TAKEN.items():
        library = c_source.load(Path(__file__).with_name(source))
        if library is None:
            return {}
        for name, taken in functions.items():
            found[name] = getattr(library, name)
            found[name].argtypes, found[name].restype = taken, Number if name.endswith("room") else None
    return found


def product(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, then: str = "nothing", other: Tensor | None = None, out: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """x (M, K) weight (K, N), which may be turned, + bias (N,), and what then happens: `plus` or `times` others (M, N); or GELU, in whose
    place its slope is found. The second of what is returned: GELU itself, and after `times` the sums (N,) of the columns."""
    c, (m, k), n, threads = functions(), x.shape, weight.size(1), torch.get_num_threads()
    out = x.new_empty(m, n) if out is None else out
    more = x.new_empty(m, n) if then.startswith("gelu") else x.new_empty(n) if then == "times" else out
    space = x.new_empty(c["product_room"](k, n, threads))
    places = [None if tensor is None else tensor.data_ptr() for tensor in (bias, other, out, more, space)]
    c["product"](THEN[then], x.data_ptr(), weight.data_ptr(), *weight.stride(), *places, m, k, n, threads)
    return out, more


def columns(x: Tensor) -> Tensor:
    """The sums (N,) of the columns of x (M, N)."""
    (m, n), threads = x.shape, torch.get_num_threads()
    out, space = x.new_empty(n), x.new_empty(threads * 2 * n)
    functions()["columns"](x.data_ptr(), out.data_ptr(), space.data_ptr(), m, n, threads)
    return out


def norm(x: Tensor, scale: Tensor, shift: Tensor | None, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """x (M, N) under a norm; means and rates (M, 1)."""
    out, mean, rate = torch.empty_like(x), x.new_empty(len(x), 1), x.new_empty(len(x), 1)
    places = [None if tensor is None else tensor.data_ptr() for tensor in (x, scale, shift, out, mean, rate)]
    functions()["norm"](*places, eps, *x.shape, torch.get_num_threads())
    return out, mean, rate


def norm_back(change: Tensor, x: Tensor, mean: Tensor, rate: Tensor, scale: Tensor, added: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradient of x (M, N) from that of its norm, which is used up, plus what is added; those of scale and shift (N,), and the sums
    (N,) of the first's columns."""
    (m, n), threads = x.shape, torch.get_num_threads()
    dscale, dshift, sums, space = (x.new_empty(size) for size in (n, n, n, threads * 6 * n))
    places = [tensor.data_ptr() for tensor in (change, x, mean, rate, scale, added, dscale, dshift, sums, space)]
    functions()["norm_back"](*places, m, n, threads)
    return change, dscale, dshift, sums


def attend(qkv: Tensor) -> Tensor:
    """What the heads of qkv (B, T, 3, H, W) find (B, T, H W)."""
    b, t, _, h, w = qkv.shape
    threads, c = torch.get_num_threads(), functions()
    out, space = qkv.new_empty(b, t, h * w), qkv.new_empty(threads * c["room"](t, w))
    c["attend"](qkv.data_ptr(), out.data_ptr(), space.data_ptr(), b, t, h, w, threads)
    return out


def attend_back(change: Tensor, qkv: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient of qkv (B, T, 3, H, W) from that of what its heads found (B, T, H W), and the sums (3 H W,) of its columns."""
    b, t, _, h, w = qkv.shape
    threads, c = torch.get_num_threads(), functions()
    out, sums, space = torch.empty_like(qkv), change.new_empty(3 * h * w), change.new_empty(threads * (c["room"](t, w) + 3 * h * w))
    c["attend_back"](*(tensor.data_ptr() for tensor in (change, qkv, out, sums, space)), b, t, h, w, threads)
    return out, sums
