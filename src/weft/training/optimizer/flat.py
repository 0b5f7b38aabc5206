"""Many parameters as one: laid end to end in a buffer of which each is a view.

A small model has dozens of tensors of a few thousand numbers. Clipping and updating them one by one costs more in calls
than in arithmetic; as one tensor any optimiser that works number by number does the same to them in a few calls.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

LIMIT = 1 << 24
"""Numbers up to which copying the gradients together costs less than it gains."""


class FlatParameter:
    def __init__(self, named: dict[str, nn.Parameter]):
        self.named = named
        self.buffer = nn.Parameter(torch.cat([p.detach().flatten() for p in named.values()]))
        for name, view in self.views(self.buffer.detach()).items():
            named[name].data = view

    @staticmethod
    def serves(named: dict[str, nn.Parameter]) -> bool:
        """Whether these parameters may be laid together: of one kind, and few enough."""
        kinds = {(p.dtype, p.device, type(p.data)) for p in named.values()}
        return len(kinds) == 1 and next(iter(kinds))[2] is Tensor and 1 < sum(p.numel() for p in named.values()) <= LIMIT

    def gather(self) -> None:
        """Lay the gradients together; one that is missing is zero."""
        parts = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.named.values()]
        self.buffer.grad = torch.cat([part.flatten() for part in parts])

    def views(self, laid: Tensor) -> dict[str, Tensor]:
        """The part of each parameter in a tensor laid out like the buffer."""
        sizes = [p.numel() for p in self.named.values()]
        return {name: part.view(p.shape) for (name, p), part in zip(self.named.items(), torch.split(laid, sizes), strict=True)}
