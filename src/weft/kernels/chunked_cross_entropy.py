"""Cross-entropy of tokens through a linear head, without ever holding all logits (after Wijmans et al., 2024, arXiv:2411.09009).

The logits of a vocabulary are by far the largest tensor of a language model. Here they are made for some rows at a time, turned
at once into losses and, in place, into their own gradient, which two products carry on to the states and to the head's weight.
So the backward pass only multiplies by a number. Shapes: N tokens, D width, V vocabulary.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import cache, partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from weft.kernels.cuda import cublaslt_matmul
from weft.kernels.cuda.cublaslt_matmul import multiply

IGNORE = -100
"""A target that counts for nothing, as in PyTorch's own losses and in the data."""
CHUNK = 3 << 28
"""Logits that are held at a time, 1.5 GiB of them in bf16."""
HELD = 1 << 16
"""Logits of the longest row that a GPU keeps in registers, where it is read only once."""
TILE = 256
"""Rows that products on a GPU take at once."""
MULTIPLE = 128
"""What a vocabulary is filled up to a multiple of on a GPU, whose products are slow at odd sizes."""


def chunked_cross_entropy(head: Callable[[Tensor], Tensor], hidden: Tensor, targets: Tensor, logits: str = "whole") -> Tensor:
    """Summed -log p of the targets (...) by a head over states (..., D); IGNORE counts for nothing. `logits`: "whole" or "chunked".

    Only a linear layer without a bias is computed in chunks; any other head is called.
    """
    linear = isinstance(head, nn.Linear) and type(head).forward is nn.Linear.forward and head.bias is None
    if logits == "whole" or not (linear and isinstance(head, nn.Linear)):
        scores = head(hidden).flatten(0, -2)
        return F.cross_entropy(scores.float(), targets.flatten(), ignore_index=IGNORE, reduction="sum")
    kind = hidden.device.type
    if torch.is_autocast_enabled(kind):
        hidden = hidden.to(torch.get_autocast_dtype(kind))
    loss: Tensor = chunked_loss(hidden.flatten(0, -2), head.weight, targets.flatten(), torch.is_grad_enabled())[0]
    return loss


@torch.library.custom_op("weft::chunked_loss", mutates_args=())
def chunked_loss(hidden: Tensor, weight: Tensor, targets: Tensor, with_grad: bool) -> tuple[Tensor, Tensor, Tensor]:
    """hidden (N, D), weight (V, D), targets (N,) -> the summed loss and, to `with_grad`, its gradients (N, D) and (V, D)."""
    size, (rows, width) = len(weight), hidden.shape
    padded = -(-size // MULTIPLE) * MULTIPLE if hidden.is_cuda else size
    table = hidden.new_empty(padded, width)  # products are made in the precision of the states
    table[:size].copy_(weight)
    table[size:].zero_()
    losses = torch.empty(rows, dtype=torch.promote_types(hidden.dtype, torch.float32), device=hidden.device)
    grad_hidden = torch.empty_like(hidden, memory_format=torch.contiguous_format) if with_grad else hidden.new_empty(0)
    grad_weight = torch.empty(padded, width, dtype=losses.dtype, device=hidden.device) if with_grad else weight.new_empty(0)
    step = chunk_rows(rows, padded)
    held = hidden.new_empty(step, padded)
    for start in range(0, rows, step):
        some, wanted = hidden[start : start + step], targets[start : start + step]
        logits = multiply(some, table.t(), out=held[: len(some)])
        losses[start : start + step] = row_losses(logits, size, wanted, with_grad)
        if with_grad:
            multiply(logits, table, out=grad_hidden[start : start + step])
            usual = partial(add_product, grad_weight, logits.t(), some, first=not start)
            cublaslt_matmul.add_product(grad_weight, logits.t(), some, usual, first=not start)
    return losses.sum(), grad_hidden, grad_weight[:size].to(weight.dtype) if with_grad else grad_weight


def chunk_rows(rows: int, vocabulary: int) -> int:
    """Rows of a chunk: about as many as may be held, in chunks of one size, and such as products cut into whole tiles."""
    number = -(-rows * vocabulary // CHUNK)
    each = max(1, -(-rows // number))
    return -(-each // TILE) * TILE if each > 4 * TILE else each


def row_losses(logits: Tensor, size: int, targets: Tensor, with_grad: bool) -> Tensor:
    """-log p of each row's target by its first `size` logits (N,); to `with_grad`, the logits become the gradient of their sum."""
    if logits.is_cuda and importlib.util.find_spec("triton"):
        from weft.kernels.triton.cross_entropy import losses_of_rows

        return losses_of_rows(logits, size, targets, with_grad)
    counted = targets != IGNORE
    own = logits[:, :size]
    exact = own.to(torch.promote_types(own.dtype, torch.float32))
    place = targets.where(counted, 0)[:, None]
    whole = exact.logsumexp(-1)
    found = (whole - exact.gather(1, place).squeeze(1)).where(counted, 0.0)
    if with_grad:
        grad_weight = (exact - whole[:, None]).exp()
        grad_weight.scatter_add_(1, place, torch.full_like(place, -1.0, dtype=grad_weight.dtype))
        own.copy_(grad_weight * counted[:, None])
    return found


def add_product(total: Tensor, a: Tensor, b: Tensor, first: bool = False) -> None:
    """total += a b, summed in the precision of the total; the first is no sum, and the total holds nothing yet."""
    before = 0 if first else 1
    if total.is_cuda and total.dtype != a.dtype and adds_exactly(a.dtype):
        torch.ops.aten.addmm.dtype_out(total, a, b, total.dtype, beta=before, out=total)
    elif total.dtype == a.dtype:
        total.addmm_(a, b, beta=before)
    elif first:
        total.copy_(a @ b)
    else:
        total += a @ b


@cache
def adds_exactly(kind: torch.dtype) -> bool:
    """Whether this PyTorch and GPU add a product of `kind` to an fp32 tensor without rounding the product first."""
    probe, factor = torch.zeros(16, 16, device="cuda"), torch.ones(16, 16, dtype=kind, device="cuda")
    try:
        torch.ops.aten.addmm.dtype_out(probe, factor, factor, probe.dtype, out=probe)
    except (RuntimeError, AttributeError, NotImplementedError):
        return False
    return True


@chunked_loss.register_fake
def _(hidden: Tensor, weight: Tensor, targets: Tensor, with_grad: bool) -> tuple[Tensor, Tensor, Tensor]:
    loss = hidden.new_empty((), dtype=torch.promote_types(hidden.dtype, torch.float32))
    if not with_grad:
        return loss, hidden.new_empty(0), weight.new_empty(0)
    return loss, torch.empty_like(hidden, memory_format=torch.contiguous_format), torch.empty_like(weight)


def _save(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
    ctx.save_for_backward(output[1], output[2])
    ctx.set_materialize_grads(False)


def _differentiate(ctx, factor, _, __):  # type: ignore[no-untyped-def]
    grad_hidden, grad_weight = ctx.saved_tensors
    return grad_hidden * factor, grad_weight * factor, None, None


chunked_loss.register_autograd(_differentiate, setup_context=_save)
