"""One vector for a text: the mean of its tokens' last states, of length 1, as sentence-transformers has it.

Shapes: B batch, T time, D width.
"""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from weft.inference.predict.language import embed as embed_ids
from weft.models.base import States

MOST_TOKENS = 16384
"""Tokens that go through the model at once, unless one text has more."""


@torch.inference_mode()
def embed(model: States, rows: Sequence[Sequence[int]]) -> Tensor:
    """Rows of tokens, all of the same length -> vectors (B, D)."""
    return embed_ids(model, torch.tensor(rows, device=next(model.parameters()).device))


def alike(rows: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Places of rows that have the same length, in groups of a bounded size: nothing is padded, so no text depends on another."""
    groups: dict[int, list[int]] = defaultdict(list)
    for place, row in enumerate(rows):
        groups[len(row)].append(place)
    for length, places in groups.items():
        size = max(1, MOST_TOKENS // length)
        for first in range(0, len(places), size):
            yield places[first : first + size]


def shortened(vector: np.ndarray, dimensions: int) -> np.ndarray:
    """The first few dimensions, again of length 1."""
    part = vector[:dimensions]
    length = float(np.linalg.norm(part))
    return part / length if length else part


def encoded(vector: np.ndarray, form: str) -> list[float] | str:
    """As a list of numbers, or as the bytes of float32, little end first, in base64."""
    if form == "base64":
        return base64.b64encode(vector.astype("<f4").tobytes()).decode()
    numbers: list[float] = vector.astype(float).tolist()
    return numbers
