"""Classes as vectors."""

from __future__ import annotations

import torch
from torch import Tensor


def one_hot(label: Tensor, classes: int) -> Tensor:
    """label (B,) -> (B, C), 1 at its class; zeros where the label is UNLABELLED, which is no class."""
    return (label[:, None] == torch.arange(classes, device=label.device)).float()
