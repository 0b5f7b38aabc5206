"""A small recurrent language model that is registered in tests only: gated recurrent units (Cho et al., 2014), read token by token."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from weft.core import registry
from weft.models.base import ModelConfig
from weft.nn.state import RecurrentState


@dataclass(frozen=True, kw_only=True)
class GRUConfig(ModelConfig):
    vocabulary: int = 0
    layers: int = 2
    width: int = 16

    def build(self) -> GRU:
        return GRU(self)


class GRU(nn.Module):
    def __init__(self, config: GRUConfig):
        super().__init__()
        c = self.config = config
        self.embed = nn.Embedding(c.vocabulary, c.width)
        self.cells = nn.ModuleList(nn.GRUCell(c.width, c.width) for _ in range(c.layers))
        self.head = nn.Linear(c.width, c.vocabulary)
        self.tokens_read = 0

    def new_state(self) -> RecurrentState:
        return RecurrentState({"h": (self.config.layers, self.config.width)}, self.embed.weight)

    def hidden(self, ids: Tensor, state: RecurrentState | None = None, lengths: Tensor | None = None) -> Tensor:
        """ids (B, T), the first of which count in each row -> states (B, T, D)."""
        b, t = ids.shape
        self.tokens_read += b * t if lengths is None else int(lengths.sum())
        h = state.tensors["h"].unbind(1) if state else [self.embed.weight.new_zeros(b, self.config.width) for _ in self.cells]
        outputs = []
        for position, x in enumerate(self.embed(ids).unbind(1)):
            new = []
            for cell, before in zip(self.cells, h, strict=True):
                x = cell(x, before)
                new.append(x if lengths is None else torch.where((position < lengths)[:, None], x, before))
            h = tuple(new)
            outputs.append(x)
        if state:
            state.update(h=torch.stack(list(h), 1))
        return torch.stack(outputs, 1)

    def forward(self, ids: Tensor) -> Tensor:
        logits: Tensor = self.head(self.hidden(ids))
        return logits


@contextmanager
def registered() -> Iterator[None]:
    """As a family of another package would register it."""
    registry.add("models", "stub_gru", "tests.recurrent:GRUConfig", 2014, "a stub")
    try:
        yield
    finally:
        del registry.TABLES["models"]["stub_gru"]


def built(seed: int = 0, vocabulary: int = 30, scale: float = 3.0, **sizes: int) -> GRU:
    """Random weights, large enough that what was read long ago counts."""
    torch.manual_seed(seed)
    model = GRUConfig(vocabulary=vocabulary, **sizes).build().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(scale)
    return model
