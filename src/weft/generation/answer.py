"""Texts through an encoder and a decoder: translations, or whatever else a model was taught to answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from weft.errors import CapabilityError
from weft.generation.beam import translate
from weft.models.base import Answers, need

PAD, START, END = 0, 1, 2


def answer(model: Any, tokenizer: Any, texts: Sequence[str], *, beams: int = 5, alpha: float = 0.6, batch: int = 64) -> list[str]:
    """The model's best answer to each text; those of similar length are read together."""
    need(model, Answers)
    if tokenizer is None:
        raise CapabilityError("this checkpoint holds no tokenizer, so text cannot be turned into tokens")
    room = getattr(model.config, "context", 0) or 1 << 30
    encoded = [[*tokenizer.encode(text).tolist()[: room - 1], END] for text in texts]
    order = sorted(range(len(texts)), key=lambda i: len(encoded[i]))
    device = next(model.parameters()).device
    said = [""] * len(texts)
    for first in range(0, len(order), batch):
        rows = [encoded[i] for i in order[first : first + batch]]
        lengths = torch.tensor([len(row) for row in rows], device=device)
        source = torch.tensor([row + [PAD] * (len(rows[-1]) - len(row)) for row in rows], device=device)
        for i, best in zip(
            order[first : first + batch], translate(model, source, lengths, START, END, beams=beams, alpha=alpha), strict=True
        ):
            said[i] = tokenizer.decode(best[0].ids)
    return said
