"""Beam search with models: targets of a source through an encoder and a decoder, and continuations of prompts.

What a row gets does not depend on the rows beside it. Shapes: B rows, N hypotheses of all rows, T time, S source time, L layers, H heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from weft.core.errors import CapabilityError, ConfigError
from weft.data.constraint import Constraint
from weft.inference.attention_weights import Recorder
from weft.inference.beam import Beam, BeamSteps, Cover, Hypothesis, Score, finish, searching
from weft.inference.runner import ModelRunner
from weft.models.base import Decodes, NextTokenLogits, Subsamples, offers
from weft.nn.state import EncoderDecoderState

NEVER = -1
"""The token by which a model ends its texts, where it has none."""
LEAST = 1e-9
"""A share of attention of which the logarithm is taken."""


def translate(
    model: Any,
    source: Tensor,
    lengths: Tensor,
    start: int,
    end: int,
    *,
    beams: int = 5,
    longest: int = 0,
    length_penalty: float = 0.6,
    coverage_penalty: float = 0.0,
    cached: bool = True,
    constraints: Sequence[Constraint | None] = (),
) -> list[list[Hypothesis]]:
    """source (B, S), or features (B, S, …), and lengths (B,) through an encoder and a decoder -> the best targets of each row, best first.

    cached: read every target once, where the model can. constraints: what the target of each row may say.
    """
    beam = Beam(beams, length_penalty, coverage_penalty)
    return finish(translating(model, source, lengths, start, end, beam, longest, cached, constraints))


@torch.inference_mode()
def translating(
    model: Any,
    source: Tensor,
    lengths: Tensor,
    start: int,
    end: int,
    beam: Beam,
    longest: int = 0,
    cached: bool = True,
    constraints: Sequence[Constraint | None] = (),
) -> BeamSteps:
    """As `translate`, step by step."""
    sizes = lengths.tolist()
    source = source[:, : max(1, *sizes)] if sizes else source
    memory = model.encode(source, lengths)
    lengths = model.encoded_lengths(lengths) if offers(model, Subsamples) else lengths
    state: EncoderDecoderState | None = model.new_state() if cached and offers(model, Decodes) else None
    if state:
        state.add_sources(memory, lengths)

    def score(ids: Tensor, row: Tensor, origin: Tensor) -> Tensor:
        if state is None:
            hidden = model.decode(ids, memory[row], lengths[row])
        else:
            if ids.size(1) > 1:
                state.select(origin.tolist())
            hidden = model.decode(ids[:, -1:], state.encoder.states, state.encoder.lengths, state)
            state.count([1] * len(ids))
        logits: Tensor = model.head(hidden[:, -1])
        return logits

    context = getattr(model.config, "context", 0) or 1 << 30
    rooms = [min(longest or 3 * size + 50, context - 1) for size in sizes]
    most = max(rooms, default=1)
    begin = torch.full((len(source),), start, device=source.device)
    cover = coverage(model, memory, lengths, start) if beam.coverage_penalty else None
    best = yield from searching(score, begin, end, beam, most, cover, constraints, rooms)
    return best


def coverage(model: Any, memory: Tensor, lengths: Tensor, start: int) -> Cover:
    """How well targets cover the sources of a memory (B, S, D), from the cross-attention of all layers and heads, averaged."""

    def cover(sequences: Sequence[Sequence[int]], rows: Sequence[int]) -> list[float]:
        longest = max(map(len, sequences))
        inputs = [[start, *ids[:-1], *[start] * (longest - len(ids))] for ids in sequences]  # what each token was written after
        row = torch.tensor(rows, device=memory.device)
        with Recorder(model) as recorder:
            model.decode(torch.tensor(inputs, device=memory.device), memory[row], lengths[row])
        names = [name for name in recorder.layers if name.endswith(".cross")]
        if not names:
            raise CapabilityError(f"{type(model).__name__} has no cross-attention, so how it covers a source is not known")
        weights = torch.stack([each.mean(1) for each in recorder.of(names)]).mean(0)  # (N, T, S)
        sizes = torch.tensor([len(ids) for ids in sequences], device=memory.device)
        made = torch.arange(longest, device=memory.device) < sizes[:, None]  # (N, T)
        got = weights.masked_fill(~made.unsqueeze(-1), 0.0).sum(1).clamp(LEAST, 1.0).log()  # (N, S)
        ends = lengths[row, None] - (memory.size(-2) - got.size(1))  # a memory may begin with states that no attention looks at
        inside = torch.arange(got.size(1), device=memory.device) < ends
        values: list[float] = got.masked_fill(~inside, 0.0).sum(1).tolist()
        return values

    return cover


def continuations(
    model: Any, prompts: Sequence[Sequence[int]], *, beam: Beam, longest: int, end: int = NEVER, vocabulary: int = 0, cached: bool = True
) -> list[list[Hypothesis]]:
    """The likeliest continuations of each prompt, best first."""
    return finish(continuing(model, prompts, beam, longest, end, vocabulary, cached))


@torch.inference_mode()
def continuing(
    model: Any, prompts: Sequence[Sequence[int]], beam: Beam, longest: int, end: int = NEVER, vocabulary: int = 0, cached: bool = True
) -> BeamSteps:
    """As `continuations`, step by step. vocabulary: tokens from here on are never chosen, where it is not 0."""
    if not all(prompts):
        raise ConfigError("beam search continues prompts of at least one token each")
    if beam.coverage_penalty:
        raise ConfigError("coverage is of a source, and a text that is continued has none; leave the coverage penalty out")
    runner = ModelRunner(model, cached=cached)
    runner.add_rows(len(prompts))
    runner.prefill([list(ids[:-1]) for ids in prompts])
    score = continuation_score(runner, model, vocabulary)
    begin = torch.tensor([ids[-1] for ids in prompts], device=runner.device)
    best = yield from searching(score, begin, end, beam, longest)
    return best


def continuation_score(runner: ModelRunner, model: NextTokenLogits, vocabulary: int) -> Score:
    """Scores of what follows in the rows of a runner, which holds all but the last token of each."""

    def score(ids: Tensor, row: Tensor, origin: Tensor) -> Tensor:
        if ids.size(1) > 1:
            runner.select(origin.tolist())
        states = runner.prefill([[number] for number in ids[:, -1].tolist()])
        logits: Tensor = model.head(torch.stack([row_states[-1] for row_states in states]))
        return logits[:, : vocabulary or logits.size(-1)]

    return score
