"""Continuous batching for an encoder and a decoder: as in `engine`, but a prompt is a source, and the answer a target of its own.

A source, tokens or features, is encoded once, when its request gets a slot. Every step then decodes the last token of all targets at once
and chooses the next, by the same settings and keys as for texts that are continued. Shapes: B rows, S source time, T target time, D width.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from weft.core.errors import ConfigError
from weft.inference.engine import ActiveRequest, trimmed
from weft.inference.penalties import check_bias
from weft.inference.request import Delta, Request, Token
from weft.inference.sampler import Sampler
from weft.inference.translate import PAD, start_and_end
from weft.models.base import Decodes, Subsamples, offers
from weft.nn.state import EncoderDecoderState, EncoderOutput

LONGEST = 2048
"""Most tokens of a source, and of a target, where the model itself knows no limit."""
LARGEST = 1 << 24
"""Pairs of positions that attend to each other in an encoder at once."""


class SourceRequest(ActiveRequest):
    """A source that is being answered. Stop sequences and penalties concern the answer alone: a name may well be said again."""

    def __init__(self, number: int, request: Request, tokenizer: Any):
        own_constraint = tokenizer.constraint(request.ids) if request.source is None else None
        constraint = own_constraint if request.constraint is None else request.constraint
        own = replace(request, ids=(), constraint=constraint)
        super().__init__(number, own, tokenizer.for_source(request.source_text) if request.source_text else tokenizer)
        self.source = source_of(request, tokenizer)


def source_of(request: Request, tokenizer: Any) -> Tensor:
    """Features (S, …) of a request, or its tokens (S,) with END behind them."""
    if request.source is not None:
        return request.source
    _, end = start_and_end(tokenizer)
    return torch.tensor(request.ids if request.ids[-1:] == (end,) else (*request.ids, end))


class EncoderDecoderEngine:
    """The same questions as to `engine.Engine`; one thread owns it."""

    def __init__(self, model: Any, tokenizer: Any, *, slots: int = 32, cached: bool = True):
        """slots: answers made at once. cached: read every token of a target once, where the model can."""
        if slots < 1:
            raise ConfigError(f"slots must be at least 1, not {slots}")
        self.model, self.tokenizer, self.slots = model.eval(), tokenizer, slots
        self.cached = cached and offers(model, Decodes)
        self.context: int = getattr(model.config, "context", 0) or LONGEST
        self.device = next(model.parameters()).device
        self.start, self.end = start_and_end(tokenizer)
        self.queue: deque[SourceRequest] = deque()
        self.requests: list[SourceRequest] = []
        self.sampler: Sampler | None = None
        self.added = 0
        self._reset()

    def _reset(self) -> None:
        """Nothing is being answered."""
        self.state: EncoderDecoderState | None = self.model.new_state() if self.cached else None
        self.encoder = self.state.encoder if self.state else EncoderOutput()

    @property
    def waiting(self) -> int:
        return len(self.queue)

    @property
    def active(self) -> int:
        return len(self.requests)

    def add(self, request: Request) -> int:
        """Ask for an answer -> its number."""
        request.sampling.check()
        known: int = self.tokenizer.size
        check_bias(request.sampling, known)
        if not all(0 <= number < known for number in request.ids):
            raise ConfigError(f"the tokens of a source must be from 0 to {known - 1}")
        if request.prompt_logprobs or request.sampling.max_new_tokens < 1:
            raise ConfigError("a source is read from both sides, so it has no log-probabilities; ask for an answer, and not for an echo")
        if request.source is not None and not (request.source.ndim and len(request.source)):
            raise ConfigError(f"a source of features must have at least one, along its first dimension, not {tuple(request.source.shape)}")
        each = SourceRequest(self.added + 1, request, self.tokenizer)
        if request.source is None and len(each.source) > self.context:
            raise ConfigError(f"a source of {len(each.source)} tokens does not fit a context of {self.context}")
        self.added += 1
        self.queue.append(each)
        return self.added

    @torch.inference_mode()
    def cancel(self, number: int) -> None:
        """Stop answering; the slot is free at once."""
        self.queue = deque(each for each in self.queue if each.number != number)
        self._select([row for row, each in enumerate(self.requests) if each.number != number])

    @torch.inference_mode()
    def step(self) -> dict[int, Delta]:
        """One token for each answer -> what every request got, by its number."""
        self._admit()
        if not self.requests:
            return {}
        deltas = self._choose(self._decode())
        self._select([row for row, each in enumerate(self.requests) if not deltas[each.number].finish_reason])
        return deltas

    def _admit(self) -> None:
        """Encode the sources for which there are slots."""
        new = [self.queue.popleft() for _ in range(min(self.slots - len(self.requests), len(self.queue)))]
        for requests in batches(new):
            source, lengths = padded([each.source for each in requests], self.device)
            states = self.model.encode(source, lengths)
            lengths = self.model.encoded_lengths(lengths) if offers(self.model, Subsamples) else lengths
            if self.state:
                self.state.add_sources(states, lengths)
            else:
                self.encoder.add(states, lengths)
            self.requests += requests
            self.sampler = None

    def _decode(self) -> Tensor:
        """The hidden state (B, D) of the last token of each target."""
        memory, lengths = self.encoder.states, self.encoder.lengths
        if self.state:
            last = torch.tensor([[each.answer[-1] if each.answer else self.start] for each in self.requests], device=self.device)
            states: Tensor = self.model.decode(last, memory, lengths, self.state)[:, -1]
            self.state.count([1] * len(self.requests))
            return states
        targets = [torch.tensor([self.start, *each.answer]) for each in self.requests]
        states = self.model.decode(padded(targets, self.device)[0], memory, lengths)
        return torch.stack([row[len(each.answer)] for each, row in zip(self.requests, states, strict=True)])

    def _choose(self, states: Tensor) -> dict[int, Delta]:
        """The next token of each row, from its hidden state (B, D)."""
        logits = self.model.head(states)[:, : self.tokenizer.size]
        requests, answers = [each.request for each in self.requests], [each.answer for each in self.requests]
        room = max(1, self.context - 1)  # the start has a position too
        self.sampler = self.sampler or Sampler(requests, self.tokenizer.size, self.device, answers, [room] * len(requests))
        ids = self.sampler.choose(logits, torch.tensor([len(answer) for answer in answers], device=self.device))
        self.sampler.record(ids)
        most = max(request.sampling.logprobs for request in requests)
        chosen = Sampler.logprobs(logits, ids, most) if most >= 0 else [Token(number) for number in ids.tolist()]
        return {
            each.number: each.push(trimmed(token, each.request.sampling.logprobs), {self.end}, room)
            for each, token in zip(self.requests, chosen, strict=True)
        }

    def _select(self, rows: list[int]) -> None:
        """Go on with these rows only."""
        if len(rows) == len(self.requests):
            return
        self.requests, self.sampler = [self.requests[row] for row in rows], None
        if not rows:
            self._reset()
        elif self.state:
            self.state.select(rows)
        else:
            self.encoder.select(rows)


def padded(rows: Sequence[Tensor], device: torch.device) -> tuple[Tensor, Tensor]:
    """Tokens or features (T, …) of each row -> (B, T, …), padded behind the last, and their lengths (B,)."""
    lengths = torch.tensor([len(row) for row in rows], device=device)
    return pad_sequence([row.to(device) for row in rows], batch_first=True, padding_value=PAD), lengths


def batches(requests: Sequence[SourceRequest]) -> list[list[SourceRequest]]:
    """Requests in groups that an encoder can read at once, tokens apart from features."""
    groups: list[list[SourceRequest]] = []
    longest, shape = 0, torch.Size()
    for each in requests:
        longest = max(longest, len(each.source))
        if not groups or (len(groups[-1]) + 1) * longest**2 > LARGEST or each.source.shape[1:] != shape:
            groups.append([])
            longest, shape = len(each.source), each.source.shape[1:]
        groups[-1].append(each)
    return groups
