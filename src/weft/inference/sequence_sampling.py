"""Targets decoded inside training: token by token for a whole batch, with the decoder's state, without a gradient and without dropout.

What is chosen for a row depends on its own key alone, and the number of steps on shapes, so nothing here waits for the device.
Shapes: B sources, R rows (so many copies of each source, side by side), S source time, N steps, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from weft.core import random
from weft.inference.sampler import draw
from weft.models.base import Subsamples, offers
from weft.nn.state import EncoderDecoderState

Choose = Callable[[int, Tensor], Tensor]
"""Number of the step and logits (R, V) -> the tokens that are read next (R,)."""


@contextmanager
def without_dropout(model: nn.Module) -> Iterator[None]:
    """The model in evaluation mode, and afterwards as it was."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def encoded(model: Any, source: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """source (B, S, …), lengths (B,) -> the encoder's output with the lengths that the decoder is told."""
    return model.encode(source, lengths), model.encoded_lengths(lengths) if offers(model, Subsamples) else lengths


@torch.no_grad()
def decode_steps(model: Any, source: Tensor, lengths: Tensor, start: int, steps: int, choose: Choose, copies: int = 1) -> Tensor:
    """source (B, S, …), lengths (B,) -> what was chosen behind START (R, N)."""
    chosen: list[Tensor] = []
    with without_dropout(model):
        memory, known = encoded(model, source, lengths)
        state: EncoderDecoderState = model.new_state()
        state.add_sources(memory, known)
        state.reserve(len(source) * copies, steps)
        last = torch.full((len(source),), start, device=source.device)
        for step in range(steps):
            logits = model.head(model.decode(last[:, None], state.encoder.states, state.encoder.lengths, state)[:, -1])
            state.count([1] * len(last))
            if copies > 1 and not step:  # what is known before the first choice is the same for all copies
                state.select([row for row in range(len(source)) for _ in range(copies)])
                logits = logits.repeat_interleave(copies, 0)
            last = choose(step, logits.float())
            chosen.append(last)
    return torch.stack(chosen, 1)


def copied(key: Tensor, copies: int) -> Tensor:
    """A key for each copy of each source: (B,) -> (R,)."""
    return random.fold(key[:, None], torch.arange(copies, device=key.device)).flatten()


def draw_at(logits: Tensor, key: Tensor, step: Tensor | int) -> Tensor:
    """logits (R, V), key (R,), the number of the step -> ids (R,); likewise with further dimensions between, such as that of the steps."""
    return draw(logits - logits.amax(-1, keepdim=True), random.fold(key, step))


def sample_targets(
    model: Any,
    source: Tensor,
    lengths: Tensor,
    key: Tensor,
    most: Tensor,
    steps: int,
    start: int,
    end: int,
    samples: int = 1,
    fill: int = 0,
) -> Tensor:
    """Draw targets from the model: source (B, S), lengths and keys (B,) -> (B, samples, N) with `fill` behind END.

    most: tokens that a target of each source may have, END among them (B,), at most `steps`.
    """
    keys = copied(key, samples)
    return _ended(
        decode_steps(model, source, lengths, start, steps, lambda step, logits: draw_at(logits, keys, step), samples), most, end, fill
    )


def greedy_targets(model: Any, source: Tensor, lengths: Tensor, most: Tensor, steps: int, start: int, end: int, fill: int = 0) -> Tensor:
    """The same with the likeliest token at each step: (B, 1, N)."""
    return _ended(decode_steps(model, source, lengths, start, steps, lambda step, logits: logits.argmax(-1)), most, end, fill)


def _ended(chosen: Tensor, most: Tensor, end: int, fill: int) -> Tensor:
    """Tokens (R, N) -> (B, copies, N), with `fill` behind the first END and from `most` (B,) on."""
    chosen = chosen.view(len(most), -1, chosen.size(1))
    is_end = chosen == end
    over = (is_end.cumsum(-1) - is_end.long() > 0) | (torch.arange(chosen.size(-1), device=chosen.device) >= most[:, None, None])
    return chosen.masked_fill(over, fill)
