"""The likeliest token at each state of a recogniser: of CTC all at once, of a transducer one after the other.

Shapes: B batch, T states of the encoder, V vocabulary, E width of the predictor.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from weft.models.base import EmitsLabels, Transduces

BLANK = 0
MOST = 10
"""Tokens that a transducer may say at one state, so that every search ends."""


def collapse(path: list[int], blank: int = BLANK) -> list[int]:
    """What is left of a path when repeated labels become one and blanks are left out."""
    return [label for place, label in enumerate(path) if label != blank and (not place or label != path[place - 1])]


@torch.inference_mode()
def ctc_greedy(model: EmitsLabels, source: Tensor, lengths: Tensor) -> list[list[int]]:
    """source (B, S, M), lengths (B,) -> the labels of each row's likeliest path."""
    best = model.ctc_head(model.encode(source, lengths)).argmax(-1).tolist()
    return [collapse(path[:size]) for path, size in zip(best, model.encoded_lengths(lengths).tolist(), strict=True)]


def rows_of(state: dict[str, Tensor], chosen: Tensor) -> dict[str, Tensor]:
    return {name: held[chosen] for name, held in state.items()}


@torch.inference_mode()
def transducer_greedy(model: Transduces, source: Tensor, lengths: Tensor, start: int) -> list[list[int]]:
    """source (B, S, M), lengths (B,) -> the labels of each row, the likeliest token at each state until it is blank.

    Rows are at states of their own: in each round every row says a token or goes on to its next state.
    """
    frames, sizes = model.from_frame(model.encode(source, lengths)), model.encoded_lengths(lengths)
    rows, device = len(frames), frames.device
    said: list[list[int]] = [[] for _ in range(rows)]
    predicted, state = model.predict(torch.full((rows, 1), start, device=device))
    symbols = model.from_symbols(predicted[:, 0])
    place, here = torch.zeros_like(sizes), torch.zeros_like(sizes)  # the state that each row is at, and what it has said there
    active = (place < sizes).nonzero().squeeze(1)
    while len(active):
        best = model.join(frames[active, place[active]], symbols[active]).argmax(-1)
        speaks = (best != BLANK) & (here[active] < MOST)
        going = active[~speaks]
        place[going] += 1
        here[going] = 0
        if speaks.any():
            those, tokens = active[speaks], best[speaks]
            here[those] += 1
            after, changed = model.predict(tokens[:, None], rows_of(state, those))
            symbols = symbols.index_copy(0, those, model.from_symbols(after[:, 0]).to(symbols.dtype))
            state = {name: held.index_copy(0, those, changed[name].to(held.dtype)) for name, held in state.items()}
            for row, token in zip(those.tolist(), tokens.tolist(), strict=True):
                said[row].append(token)
        active = active[place[active] < sizes[active]]
    return said


def greedy(model: Any, source: Tensor, lengths: Tensor, start: int) -> list[list[int]]:
    """What a CTC model or a transducer says."""
    return transducer_greedy(model, source, lengths, start) if hasattr(model, "join") else ctc_greedy(model, source, lengths)
