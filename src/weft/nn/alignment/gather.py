"""Entries taken by index, with a gradient that is summed in the same order every time: by products of matrices instead of atomic sums.

Shapes: B batch, T frames, S labels, V vocabulary, D width, R entries of each frame.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from weft.nn.alignment.ctc import summed_by_label


class _Pick(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, labels: Tensor) -> Tensor:
        ctx.save_for_backward(labels)
        ctx.size = x.size(2)
        return x.gather(2, labels[:, None].expand(-1, x.size(1), -1))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return summed_by_label(gradients[0], ctx.saved_tensors[0], ctx.size), None


class _Take(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(index)
        ctx.rows = x.size(1)
        return x[torch.arange(len(x), device=x.device)[:, None, None], index]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        chosen = F.one_hot(ctx.saved_tensors[0].flatten(1), ctx.rows).to(gradients[0].dtype)  # (B, T R, rows)
        return chosen.mT @ gradients[0].flatten(1, 2), None


def pick_labels(x: Tensor, labels: Tensor) -> Tensor:
    """x (B, T, V), labels (B, S) -> what each frame says of each label (B, T, S)."""
    picked: Tensor = _Pick.apply(x, labels)  # type: ignore[no-untyped-call]
    return picked


def take_rows(x: Tensor, index: Tensor) -> Tensor:
    """x (B, U, D), index (B, T, R) -> (B, T, R, D)."""
    taken: Tensor = _Take.apply(x, index)  # type: ignore[no-untyped-call]
    return taken
