"""bf16 copies of a model's matrices, which products read and gradients come back to, beside the fp32 weights.

Without them every step casts the weights to bf16 and their gradients back to fp32 in passes of their own. The model keeps its fp32
parameters, which are saved, averaged and validated; only while a turn's loss is computed do the copies stand in their place.
Embeddings, norms and biases have none: their gradients are sums of many small parts, or small themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

LEAST = 1 << 16
"""Numbers of the smallest matrix that gets a copy."""


class BF16Weights:
    def __init__(self, model: nn.Module):
        found = [m for m in model.modules() if type(m) is nn.Linear and m.weight.numel() >= LEAST]
        used: dict[int, int] = {}
        for module in model.modules():
            for parameter in module._parameters.values():
                used[id(parameter)] = used.get(id(parameter), 0) + 1
        alone = [m for m in found if used[id(m.weight)] == 1 and m.weight.requires_grad]  # a head may be the embedding
        self.places: list[tuple[nn.Linear, Any]] = [(m, m.weight) for m in alone]
        self.copies: dict[Tensor, nn.Parameter] = {w: nn.Parameter(w.detach().to(torch.bfloat16)) for _, w in self.places}

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The copies are the weights of their layers inside."""
        for module, weight in self.places:
            module._parameters["weight"] = self.copies[weight]
        try:
            yield
        finally:
            for module, weight in self.places:
                module._parameters["weight"] = weight

    @torch.no_grad()
    def refresh(self) -> None:
        """Copy the weights anew, after something else than the optimiser changed them."""
        for weight, copy in self.copies.items():
            copy.copy_(weight)
