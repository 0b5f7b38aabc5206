"""What a block does in training on a CPU, in C (`products.c`, `passes.c`), where the machine has a compiler.

What large products read is kept in fp32 or in bf16 (`kept.h`); the residual stream, its gradient, those of weights, and all sums are in
fp32. What is given lies in memory row after row. Shapes: M rows, N columns, K what a product sums over; B batch, T time, H heads, W head
width.
"""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from weft.kernels.c import compiler

Address, Number = ctypes.c_void_p, ctypes.c_int64
TAKEN = {
    "products.c": {
        "product": [Number, Address, Number, Address] + [Number] * 2 + [Address] * 5 + [Number] * 4,
        "product_room": [Number] * 3,
        "rows_product": [Address, Number, Address, Number] + [Address] * 2 + [Number] * 4,
        "rows_product_room": [Number] * 3,
    },
    "passes.c": {
        "columns": [Address] * 3 + [Number] * 3,
        "norm": [Address] * 6 + [ctypes.c_double] + [Number] * 3,
        "norm_back": [Address] * 10 + [Number] * 3,
        "attend": [Address] * 4 + [Number] * 5,
        "attend_back": [Address] * 6 + [Number] * 5,
        "room": [Number] * 2,
    },
}
"""What each function in C takes."""
THEN = {"nothing": 0, "round": 1, "plus": 2, "times": 3, "gelu": 4, "gelu_tanh": 5}
"""What may happen to what a product finds, with its number in `products.c`."""
DEFINED = {torch.float32: (), torch.bfloat16: ("KEEP_BF16",)}
"""Types in which numbers may be kept, and what the sources know them by."""


class Passes:
    """The passes for numbers that are kept in a type."""

    def __init__(self, kept: torch.dtype, c: dict[str, Any]):
        self.kept, self.c = kept, c

    def product(
        self,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        then: str = "nothing",
        other: Tensor | None = None,
        out: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """x (M, K) weight (K, N), which may be turned, + bias (N,), and what then happens: `nothing`, or they are rounded (`round`) to be
        kept; `plus` others (M, N), in fp32; `times` those that are kept, or GELU, in whose place its slope is found, both rounded. The
        second of what is returned: GELU itself, and after `times` the sums (N,) of the columns."""
        (m, k), n, threads = x.shape, weight.size(1), torch.get_num_threads()
        full = then in ("nothing", "plus")
        out = x.new_empty(m, n, dtype=torch.float32 if full else self.kept) if out is None else out
        more = torch.empty_like(out) if then.startswith("gelu") else weight.new_empty(n) if then == "times" else out
        space = weight.new_empty(self.c["product_room"](k, n, threads))
        places = [None if tensor is None else tensor.data_ptr() for tensor in (bias, other, out, more, space)]
        self.c["product"](
            THEN[then], x.data_ptr(), x.dtype == torch.float32, weight.data_ptr(), *weight.stride(), *places, m, k, n, threads
        )
        return out, more

    def rows_product(self, x: Tensor, y: Tensor) -> Tensor:
        """The sum over rows of x (M, N) by y (M, K): (N, K)."""
        (m, n), k, threads = x.shape, y.size(1), torch.get_num_threads()
        out = x.new_empty(n, k, dtype=torch.float32)
        space = out.new_empty(self.c["rows_product_room"](n, k, threads))
        factors = (x.data_ptr(), x.dtype == torch.float32, y.data_ptr(), y.dtype == torch.float32)
        self.c["rows_product"](*factors, out.data_ptr(), space.data_ptr(), m, n, k, threads)
        return out

    def columns(self, x: Tensor) -> Tensor:
        """The sums (N,) of the columns of x (M, N) in fp32."""
        (m, n), threads = x.shape, torch.get_num_threads()
        out, space = x.new_empty(n), x.new_empty(threads * 2 * n)
        self.c["columns"](x.data_ptr(), out.data_ptr(), space.data_ptr(), m, n, threads)
        return out

    def norm(self, x: Tensor, scale: Tensor, shift: Tensor | None, eps: float) -> tuple[Tensor, Tensor, Tensor]:
        """x (M, N) under a norm; means and rates (M, 1)."""
        out, mean, rate = torch.empty_like(x, dtype=self.kept), x.new_empty(len(x), 1), x.new_empty(len(x), 1)
        places = [None if tensor is None else tensor.data_ptr() for tensor in (x, scale, shift, out, mean, rate)]
        self.c["norm"](*places, eps, *x.shape, torch.get_num_threads())
        return out, mean, rate

    def norm_back(
        self, grad_out: Tensor, x: Tensor, mean: Tensor, rate: Tensor, scale: Tensor, added: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The gradient of x (M, N) from that of its norm in fp32, which is used up, plus what is added; those of scale and shift (N,), and
        the sums (N,) of the first's columns."""
        (m, n), threads = x.shape, torch.get_num_threads()
        dscale, dshift, sums, space = (x.new_empty(size) for size in (n, n, n, threads * 6 * n))
        places = [tensor.data_ptr() for tensor in (grad_out, x, mean, rate, scale, added, dscale, dshift, sums, space)]
        self.c["norm_back"](*places, m, n, threads)
        return grad_out, dscale, dshift, sums

    def attend(self, qkv: Tensor, rotary: Tensor | None = None) -> Tensor:
        """What the heads of qkv (B, T, 3, H, W) find (B, T, H W), turned by rotary positions (2, T, W) where there are any."""
        b, t, _, h, w = qkv.shape
        threads = torch.get_num_threads()
        out, space = qkv.new_empty(b, t, h * w), qkv.new_empty(threads * self.c["room"](t, w), dtype=torch.float32)
        places = [None if tensor is None else tensor.data_ptr() for tensor in (qkv, rotary, out, space)]
        self.c["attend"](*places, b, t, h, w, threads)
        return out

    def attend_back(self, grad_out: Tensor, qkv: Tensor, rotary: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The gradient of qkv (B, T, 3, H, W) from that of what its heads found (B, T, H W), and the sums (3 H W,) of its columns."""
        b, t, _, h, w = qkv.shape
        threads = torch.get_num_threads()
        out, sums = torch.empty_like(qkv), qkv.new_empty(3 * h * w, dtype=torch.float32)
        space = sums.new_empty(threads * (self.c["room"](t, w) + 3 * h * w))
        places = [None if tensor is None else tensor.data_ptr() for tensor in (grad_out, qkv, rotary, out, sums, space)]
        self.c["attend_back"](*places, b, t, h, w, threads)
        return out, sums


@cache
def passes_for(kept: torch.dtype) -> Passes | None:
    """Those for a type; None without a compiler, or for another type."""
    if kept not in DEFINED:
        return None
    with ThreadPoolExecutor() as threads:  # compilers side by side, as the first step waits for them
        libraries = [*threads.map(lambda source: compiler.load(Path(__file__).with_name(source), DEFINED[kept]), TAKEN)]
    found = {}
    for library, functions in zip(libraries, TAKEN.values(), strict=True):
        if library is None:
            return None
        for name, taken in functions.items():
            found[name] = getattr(library, name)
            found[name].argtypes, found[name].restype = taken, Number if name.endswith("room") else None
    return Passes(kept, found)
