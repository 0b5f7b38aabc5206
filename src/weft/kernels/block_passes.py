"""The passes of `gpt_block_cuda` between its products; the norm as an operation with a gradient of its own.

The compiler sums over rows, for biases and norms, in passes that read everything once more. Here these sums are made where their
numbers are read or written anyway (`gpt_block_kernels`). So a bias goes two ways: its product adds it, as ever, but the gradient reaches
it through the operation that makes its sum, to which it is given for that sake alone. Without a GPU all is plain arithmetic.
Shapes: B batch, T time, D width, M = B T rows, N columns.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._subclasses.functional_tensor import FunctionalTensorMode

SHAPES: dict[str, dict[str, int]] = {
    "gelu_forward": {"BLOCK": 1024, "num_warps": 4},
    "gelu_backward": {"TILE": 2048, "EACH": 256, "STAGES": 3, "num_warps": 4},
    "sum_rows": {"TILE": 4096, "EACH": 128, "STAGES": 3, "num_warps": 4},
    "norm_forward": {"PROGRAMS": 2112, "ROWS": 4, "STAGES": 1, "num_warps": 2},
    "norm_backward": {"PROGRAMS": 528, "ROWS": 2, "STAGES": 3, "num_warps": 2},
}
"""Sizes of the kernels' tiles; a norm of rows longer than 1,024 has more warps."""

# -- norm ---------------------------------------------------------------------------------------------------------------


def residual_and_norm(x: Tensor, norm: nn.LayerNorm, before: Tensor | None = None, behind: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """x (B, T, D) as it goes on, and its norm in the precision of the products.

    `before` and `behind` are biases (D,) of what was last added to x and of what will be added next.
    """
    stream, normed, _, _ = stream_and_norm(x, norm.weight, norm.bias, before, behind, norm.eps, kind_of_products(x) == torch.bfloat16)
    return stream, normed


def kind_of_products(x: Tensor) -> torch.dtype:
    """The precision in which x enters a product."""
    device = x.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype


@torch.library.custom_op("weft::stream_and_norm", mutates_args=())
def stream_and_norm(
    x: Tensor, scale: Tensor, shift: Tensor, before: Tensor | None, behind: Tensor | None, eps: float, half: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """x, its norm, and its rows' means and rates. One operation, so that going back one pass has both gradients of x."""
    return x.clone(), *norm_rows(x, scale, shift, eps, half)


@stream_and_norm.register_fake
def _(
    x: Tensor, scale: Tensor, shift: Tensor, before: Tensor | None, behind: Tensor | None, eps: float, half: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return torch.empty_like(x), *norm_rows(x, scale, shift, eps, half)


@stream_and_norm.register_torch_dispatch(FunctionalTensorMode)
def _(mode: Any, op: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """A compiler, to which nothing is overwritten, passes x itself on instead of a copy."""
    x, scale, shift, _, _, eps, half = args
    with mode:
        return x, *norm_rows(x, scale, shift, eps, half)


@torch.library.custom_op("weft::norm_rows", mutates_args=())
def norm_rows(x: Tensor, scale: Tensor, shift: Tensor, eps: float, half: bool) -> tuple[Tensor, Tensor, Tensor]:
    """x (..., D) -> its norm, in bf16 if half, and means and rates (..., 1) of its rows."""
    x = x.contiguous()
    made = [x.new_empty(x.shape, dtype=torch.bfloat16 if half else x.dtype)]
    made += [x.new_empty(*x.shape[:-1], 1, dtype=torch.float32) for _ in range(2)]
    if x.is_cuda:
        _norm_rows(x, scale, shift, eps, *made)
    else:
        exact = x.float()
        spread, mean = torch.var_mean(exact, -1, correction=0, keepdim=True)
        rate = (spread + eps).rsqrt()
        for room, found in zip(made, ((exact - mean) * rate * scale + shift, mean, rate), strict=True):
            room.copy_(found)
    normed, mean, rate = made
    return normed, mean, rate


@norm_rows.register_fake
def _(x: Tensor, scale: Tensor, shift: Tensor, eps: float, half: bool) -> tuple[Tensor, Tensor, Tensor]:
    mean = x.new_empty(*x.shape[:-1], 1, dtype=torch.float32)
    return x.new_empty(x.shape, dtype=torch.bfloat16 if half else x.dtype), mean, torch.empty_like(mean)


def _norm_rows(x: Tensor, scale: Tensor, shift: Tensor, eps: float, normed: Tensor, mean: Tensor, rate: Tensor) -> None:
    from weft.kernels.triton import gpt_block_kernels

    d = x.size(-1)
    m = x.numel() // d
    programs, shape = shape_of("norm_forward", m, d)
    gpt_block_kernels.norm_forward[(programs,)](x, scale, shift, normed, mean, rate, m, eps, N=d, **shape)


def shape_of(name: str, m: int, d: int) -> tuple[int, dict[str, int]]:
    """Of a kernel whose programs take whole rows (m, d): how many there are, and its sizes."""
    import triton

    shape, block = dict(SHAPES[name]), triton.next_power_of_2(d)
    shape |= {"BLOCK": block, "num_warps": max(1, block // 1024) * shape["num_warps"]}
    return min(shape.pop("PROGRAMS"), triton.cdiv(m, shape["ROWS"])), shape


def _keep_norm(ctx: Any, inputs: Any, output: Any) -> None:
    _, scale, _, before, behind, _, _ = inputs
    ctx.save_for_backward(output[0], output[2], output[3], scale)
    ctx.biases = before is not None and behind is not None
    ctx.set_materialize_grads(False)


def _norm_gradients(ctx: Any, grad_residual: Tensor | None, grad_out: Tensor | None, *_: Any) -> Any:
    x, mean, rate, scale = ctx.saved_tensors
    grad_residual, grad_out = (torch.zeros_like(x) if part is None else part for part in (grad_residual, grad_out))
    back, sums = norm_back(grad_residual, grad_out, x, mean, rate, scale, ctx.biases)
    by_scale, by_shift, *rest = (part.to(scale.dtype) for part in sums.unbind(0))
    behind, before = rest or (None, None)
    return back.view(x.shape), by_scale, by_shift, before, behind, None, None


stream_and_norm.register_autograd(_norm_gradients, setup_context=_keep_norm)


@torch.library.custom_op("weft::norm_back", mutates_args=())
def norm_back(
    grad_residual: Tensor, grad_out: Tensor, x: Tensor, mean: Tensor, rate: Tensor, scale: Tensor, biases: bool
) -> tuple[Tensor, Tensor]:
    """The gradient of x (B, T, D) from that of the stream and of the norm; the sums (2 or 4, D) for scale, shift and both biases."""
    d = x.size(-1)
    grad_residual, grad_out, x = (part.contiguous().view(-1, d) for part in (grad_residual, grad_out, x))
    mean, rate = mean.view(-1, 1), rate.view(-1, 1)
    if x.is_cuda:
        return _norm_back(grad_residual, grad_out, x, mean, rate, scale, biases)
    exact, unit = grad_out.float(), (x.float() - mean) * rate
    g = exact * scale
    back = (g - g.mean(1, keepdim=True) - unit * (g * unit).mean(1, keepdim=True)) * rate + grad_residual.float()
    sums = [exact * unit, exact, *([grad_residual.float(), back] if biases else [])]
    return back.to(x.dtype), torch.stack([part.sum(0) for part in sums])


def _norm_back(
    grad_residual: Tensor, grad_out: Tensor, x: Tensor, mean: Tensor, rate: Tensor, scale: Tensor, biases: bool
) -> tuple[Tensor, Tensor]:
    from weft.kernels.triton import gpt_block_kernels

    m, d = x.shape
    programs, shape = shape_of("norm_backward", m, d)
    back, parts = torch.empty_like(x), x.new_empty(programs, 4 if biases else 2, d, dtype=torch.float32)
    gpt_block_kernels.norm_backward[(programs,)](grad_residual, grad_out, x, mean, rate, scale, back, parts, m, N=d, BIASES=biases, **shape)
    return back, added(parts)


@norm_back.register_fake
def _(grad_residual: Tensor, grad_out: Tensor, x: Tensor, mean: Tensor, rate: Tensor, scale: Tensor, biases: bool) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.numel() // x.size(-1), x.size(-1)), x.new_empty(4 if biases else 2, x.size(-1), dtype=torch.float32)


def added(parts: Tensor) -> Tensor:
    """parts (P, ...) -> their sum, always in the same order."""
    from weft.kernels.triton.narrow_block import add_up

    out = torch.empty_like(parts[0])
    add_up(parts, out)
    return out


def column_sums(x: Tensor) -> Tensor:
    """x (M, N), whose rows may lie apart from one another -> their sum (N,)."""
    if not x.is_cuda:
        return x.float().sum(0)
    from weft.kernels.triton import gpt_block_kernels

    parts, columns, shape = cut("sum_rows", x)
    gpt_block_kernels.sum_rows[(columns, len(parts))](x, parts, len(x), x.stride(0), N=x.size(1), **shape)
    return added(parts)


# -- GELU ---------------------------------------------------------------------------------------------------------------


def gelu(x: Tensor, out: Tensor, tanh: bool) -> None:
    """Of x (M, N) into `out`."""
    if not x.is_cuda:
        out.copy_(F.gelu(x, approximate="tanh" if tanh else "none"))
        return
    import triton

    from weft.kernels.triton import gpt_block_kernels

    shape = SHAPES["gelu_forward"]
    gpt_block_kernels.gelu_forward[(triton.cdiv(x.numel(), shape["BLOCK"]),)](x, out, x.numel(), TANH=tanh, **shape)


def gelu_back(grad_out: Tensor, x: Tensor, tanh: bool, recompute: Tensor | None = None) -> Tensor:
    """The gradient of GELU's result (M, N) becomes that of x, which is GELU's input; its sum over rows (N,).

    recompute: room for the result.
    """
    if not x.is_cuda:
        if recompute is not None:
            gelu(x, recompute, tanh)
        found: Tensor = torch.ops.aten.gelu_backward(grad_out.float(), x.float(), approximate="tanh" if tanh else "none")
        grad_out.copy_(found)
        return found.sum(0)
    from weft.kernels.triton import gpt_block_kernels

    parts, columns, shape = cut("gelu_backward", x)
    flags = {"N": x.size(1), "TANH": tanh, "AGAIN": recompute is not None}
    gpt_block_kernels.gelu_backward[(columns, len(parts))](
        grad_out, x, grad_out if recompute is None else recompute, parts, len(x), **flags, **shape
    )
    return added(parts)


def cut(name: str, x: Tensor) -> tuple[Tensor, int, dict[str, int]]:
    """Room for partial sums (P, N) of x (M, N), the tiles across it, and the sizes of a kernel that goes down its columns."""
    (m, n), shape = x.shape, dict(SHAPES[name])
    columns = math.gcd(n, 256)
    shape |= {"COLS": columns, "ROWS": shape.pop("TILE") // columns}
    return x.new_empty(-(-m // shape["EACH"]), n, dtype=torch.float32), n // columns, shape
