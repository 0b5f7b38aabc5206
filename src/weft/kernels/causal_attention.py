"""Causal attention by matrix products with as little traffic as possible, for a CPU.

PyTorch's fused CPU kernel is slow in its backward pass, and plain autograd copies every operand of every product. Here the
packed projection is laid out once, rows are taken in blocks that look only at the columns they may see, and the gradient is
written packed. Shapes: B batch, T time, H heads, K head width; qkv is (B, T, 3, H, K).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from weft.core.tensor_cache import cached

ROWS = 64
"""Rows of the scores taken together."""


@cached
def _corner(size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """0 where a row may look, -inf right of the diagonal: (size, size)."""
    with torch.inference_mode(False):
        return torch.full((size, size), float("-inf"), dtype=dtype, device=device).triu(1)


def attend(qkv: Tensor, dropout: float = 0.0) -> tuple[Tensor, Tensor, list[Tensor], list[Tensor]]:
    """What the heads found (B, T, H K), what they read (3, B H, T, K), and for each block of rows their weights and what dropout left."""
    b, t, _, h, k = qkv.shape
    laid = qkv.permute(2, 0, 3, 1, 4).clone(memory_format=torch.contiguous_format).view(3, b * h, t, k)
    q, key, value = laid
    q.mul_(k**-0.5)
    out = qkv.new_empty(b, t, h, k)
    blocks, kept = [], []
    for start in range(0, t, ROWS):
        end = min(start + ROWS, t)
        scores = torch.bmm(q[:, start:end], key[:, :end].mT)  # (B H, rows, end)
        scores[:, :, start:].add_(_corner(end - start, scores.dtype, scores.device))
        weights = torch.softmax(scores, -1)
        blocks.append(weights)
        if dropout:
            mask = torch.empty_like(weights).bernoulli_(1 - dropout).div_(1 - dropout)
            kept.append(mask)
            weights = weights * mask
        out[:, start:end] = torch.bmm(weights, value[:, :end]).view(b, h, -1, k).transpose(1, 2)
    return out.view(b, t, h * k), laid, blocks, kept


def attend_back(grad_out: Tensor, laid: Tensor, blocks: list[Tensor], kept: list[Tensor]) -> Tensor:
    """The gradient of q, k and v (B, T, 3, H, K) from that of what the heads found (B, T, H K)."""
    (q, key, value), (b, t, d), k = laid, grad_out.shape, laid.size(-1)
    h = d // k
    do = grad_out.view(b, t, h, k).transpose(1, 2).reshape(b * h, t, k)
    out = grad_out.new_empty(b, t, 3, h, k)
    sums: list[Tensor] = []  # for keys and values (B H, T, K)
    for i in reversed(range(len(blocks))):  # the last rows look at all columns
        rows, weights = slice(i * ROWS, min((i + 1) * ROWS, t)), blocks[i]
        end = rows.stop
        dweights = torch.bmm(do[:, rows], value[:, :end].mT)
        dropped = weights
        if kept:
            dropped = weights * kept[i]
            dweights *= kept[i]
        dscores = torch._softmax_backward_data(dweights, weights, -1, weights.dtype)
        out[:, rows, 0] = torch.bmm(dscores, key[:, :end]).mul_(k**-0.5).view(b, h, -1, k).transpose(1, 2)
        parts = [torch.bmm(dscores.mT, q[:, rows]), torch.bmm(dropped.mT, do[:, rows])]
        for total, part in zip(sums, parts):
            total[:, :end].add_(part)
        sums = sums or parts
    for place, total in enumerate(sums, 1):
        out[:, :, place] = total.view(b, h, t, k).transpose(1, 2)
    return out


class _CausalAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, qkv: Tensor, dropout: float) -> Tensor:
        out, laid, blocks, kept = attend(qkv, dropout)
        ctx.number = len(blocks)
        ctx.save_for_backward(laid, *blocks, *kept)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        laid, *saved = ctx.saved_tensors
        return attend_back(gradients[0], laid, saved[: ctx.number], saved[ctx.number :]), None


def causal_attention(qkv: Tensor, dropout: float) -> Tensor:
    """qkv (B, T, 3, H, K) -> (B, T, H * K)."""
    with torch.autocast(qkv.device.type, enabled=False):  # softmax sums in fp32 inside; autocast would copy the scores
        out: Tensor = _CausalAttention.apply(qkv, dropout)  # type: ignore[no-untyped-call]
    return out
