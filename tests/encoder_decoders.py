"""Tiny encoder–decoders and pairs, for what must hold of any of them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from weft.core import random
from weft.data.base import Batch
from weft.data.tokenizers.special_tokens import END, PAD, START
from weft.models.language.transformer import Transformer, TransformerConfig
from weft.nn.state import EncoderDecoderState, RecurrentState

V = 12


class RecurrentDecoder(nn.Module):
    """A recurrent decoder that begins in the mean of the source's embeddings, which is all its memory (B, 1, D)."""

    def __init__(self, vocabulary: int, width: int = 16):
        super().__init__()
        self.config = TransformerConfig(vocabulary=vocabulary, context=20)
        self.embed, self.cell = nn.Embedding(vocabulary, width), nn.GRUCell(width, width)
        self.head = nn.Linear(width, vocabulary)

    def new_state(self) -> EncoderDecoderState:
        return EncoderDecoderState(RecurrentState({"h": (self.cell.hidden_size,)}, self.embed.weight))

    def encoded_lengths(self, lengths: Tensor) -> Tensor:
        return torch.ones_like(lengths)

    def encode(self, source: Tensor, lengths: Tensor | None = None) -> Tensor:
        inside = torch.arange(source.size(1)) < lengths[:, None] if lengths is not None else torch.ones_like(source, dtype=torch.bool)
        return (self.embed(source) * inside.unsqueeze(-1)).sum(1, keepdim=True) / inside.sum(1).clamp(min=1)[:, None, None]

    def decode(self, target: Tensor, memory: Tensor, lengths: Tensor | None = None, state: EncoderDecoderState | None = None) -> Tensor:
        h, found = memory[:, 0], []
        if state and any(state.lengths):
            h = state.decoder.tensors["h"]  # type: ignore[union-attr]
        for x in self.embed(target).unbind(1):
            h = self.cell(x, h)
            found.append(h)
        if state:
            state.decoder.update(h=h)  # type: ignore[union-attr]
        return torch.stack(found, 1)

    def hidden(self, source: Tensor, lengths: Tensor | None, target: Tensor) -> Tensor:
        return self.decode(target, self.encode(source, lengths))


def transformer(vocabulary: int = V, dropout: float = 0.0, scale: float = 1.0, **settings: Any) -> Transformer:
    torch.manual_seed(0)
    made = TransformerConfig(vocabulary=vocabulary, context=20, layers=1, heads=2, width=16, dropout=dropout, **settings).build()
    return scaled(made, scale)


def recurrent(vocabulary: int = V, scale: float = 1.0) -> RecurrentDecoder:
    torch.manual_seed(0)
    return scaled(RecurrentDecoder(vocabulary), scale)


def scaled(model: Any, scale: float) -> Any:
    """With a larger head, so that answers are not all as likely."""
    with torch.no_grad():
        model.head.weight.mul_(scale)
    return model


MODELS = {"transformer": transformer, "recurrent": recurrent}


def batch(seed: int = 7) -> Batch:
    """Three pairs of different lengths, and a row without one."""
    target = torch.tensor([[START, 5, 6, 7, END, PAD], [START, 7, END, PAD, PAD, PAD], [START, 5, 8, 9, 5, END], [PAD] * 6])
    source = torch.tensor([[5, 6, END, PAD], [7, END, PAD, PAD], [5, 5, 5, END], [PAD] * 4])
    lengths = {"source_length": torch.tensor([3, 2, 4, 0]), "target_length": torch.tensor([5, 3, 6, 0])}
    return {"source": source, "target": target, **lengths, "key": random.keys(seed, torch.arange(4))}


def many(number: int, tokens: int = 6, seed: int = 1) -> Batch:
    """The same pair so often, with different keys."""
    target = torch.tensor([[START, *range(3, 3 + tokens), END]]).expand(number, -1)
    length = torch.full((number,), tokens + 2)
    return {
        "source": target,
        "source_length": length,
        "target": target,
        "target_length": length,
        "key": random.keys(seed, torch.arange(number)),
    }
