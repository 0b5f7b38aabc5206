"""Continuous batching for an encoder and a decoder: as in `engine`, but a prompt is a source, and the answer a target of its own.

A source is read once, when its request gets a slot. Every step then reads the last token of all targets at once and chooses the next,
by the same settings and keys as for texts that are continued. Shapes: B rows, S source time, D width.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from weft.core.errors import ConfigError
from weft.inference.engine import Row, trimmed
from weft.inference.penalties import check_bias
from weft.inference.request import Piece, Request, Token
from weft.inference.sampler import Sampler
from weft.inference.translate import PAD, marks_of
from weft.models.base import Decodes, offers

LONGEST = 2048
"""Most tokens of a source, and of a target, where the model itself knows no limit."""
LARGEST = 1 << 24
"""Pairs of tokens that look at each other in an encoder at once."""


class Target(Row):
    """A request that is being answered. Stop texts and penalties concern the answer alone: a name may well be said again."""

    def __init__(self, number: int, request: Request, tokenizer: Any):
        super().__init__(number, replace(request, ids=()), tokenizer)
        _, end = marks_of(tokenizer)
        self.source = request.ids if request.ids[-1:] == (end,) else (*request.ids, end)


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
        self.start, self.end = marks_of(tokenizer)
        self.queue: deque[Target] = deque()
        self.rows: list[Target] = []
        self.choosers: Sampler | None = None
        self.added = 0
        self._forget()

    def _forget(self) -> None:
        """Nothing is being answered."""
        self.cache = self.model.new_cache() if self.cached else None
        self.memory: Tensor | None = None  # (B, S, D), or (B, L, S, D)
        self.lengths = torch.zeros(0, dtype=torch.int64, device=self.device)  # of the sources (B,)

    @property
    def waiting(self) -> int:
        return len(self.queue)

    @property
    def active(self) -> int:
        return len(self.rows)

    def add(self, request: Request) -> int:
        """Ask for an answer -> its number."""
        request.sampling.check()
        known: int = self.tokenizer.size
        check_bias(request.sampling, known)
        if not all(0 <= number < known for number in request.ids):
            raise ConfigError(f"the tokens of a source must be from 0 to {known - 1}")
        if request.echo or request.sampling.max_new_tokens < 1:
            raise ConfigError("a source is read from both sides, so it has no log-probabilities; ask for an answer, and not for an echo")
        target = Target(self.added + 1, request, self.tokenizer)
        if len(target.source) > self.context:
            raise ConfigError(f"a source of {len(target.source)} tokens does not fit a context of {self.context}")
        self.added += 1
        self.queue.append(target)
        return self.added

    @torch.inference_mode()
    def cancel(self, number: int) -> None:
        """Stop answering; the slot is free at once."""
        self.queue = deque(row for row in self.queue if row.number != number)
        self._keep([place for place, row in enumerate(self.rows) if row.number != number])

    @torch.inference_mode()
    def step(self) -> dict[int, Piece]:
        """One token for each answer -> what every request got, by its number."""
        self._admit()
        if not self.rows:
            return {}
        pieces = self._choose(self._read())
        self._keep([place for place, row in enumerate(self.rows) if not pieces[row.number].finish])
        return pieces

    def _admit(self) -> None:
        """Read the sources for which there are slots."""
        new = [self.queue.popleft() for _ in range(min(self.slots - len(self.rows), len(self.queue)))]
        for rows in bounded(new):
            sources = [row.source for row in rows]
            lengths = torch.tensor([len(source) for source in sources], device=self.device)
            self.lengths = torch.cat([self.lengths, lengths])
            read = self.model.encode(self._filled(sources), lengths)
            self.memory = below(self.memory, read, int(self.lengths.max()))
            self.rows += rows
            if self.cache:
                self.cache.add_rows(len(rows))
                self.cache.memory.clear()  # of all sources, which now have another length
            self.choosers = None

    def _read(self) -> Tensor:
        """The state (B, D) of the last token of each target."""
        if self.cache:
            last = torch.tensor([[row.answer[-1] if row.answer else self.start] for row in self.rows], device=self.device)
            states: Tensor = self.model.decode(last, self.memory, self.lengths, self.cache)[:, -1]
            self.cache.count([1] * len(self.rows))
            return states
        states = self.model.decode(self._filled([(self.start, *row.answer) for row in self.rows]), self.memory, self.lengths)
        return torch.stack([found[len(row.answer)] for row, found in zip(self.rows, states, strict=True)])

    def _filled(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Tokens (B, T), filled up on the right."""
        longest = max(map(len, rows))
        return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows], device=self.device)

    def _choose(self, states: Tensor) -> dict[int, Piece]:
        """The next token of each row, from its state (B, D)."""
        logits = self.model.head(states)[:, : self.tokenizer.size]
        requests, answers = [row.request for row in self.rows], [row.answer for row in self.rows]
        self.choosers = self.choosers or Sampler(requests, self.tokenizer.size, self.device, answers)
        ids = self.choosers.choose(logits, torch.tensor([len(answer) for answer in answers], device=self.device))
        self.choosers.record(ids)
        most = max(request.sampling.logprobs for request in requests)
        chosen = Sampler.told(logits, ids, most) if most >= 0 else [Token(number) for number in ids.tolist()]
        room = max(1, self.context - 1)  # the start takes a place
        return {
            row.number: row.push(trimmed(token, row.request.sampling.logprobs), {self.end}, room)
            for row, token in zip(self.rows, chosen, strict=True)
        }

    def _keep(self, places: list[int]) -> None:
        """Go on with these rows only."""
        if len(places) == len(self.rows):
            return
        self.rows, self.choosers = [self.rows[place] for place in places], None
        if not places or self.memory is None:
            self._forget()
            return
        index = torch.tensor(places, device=self.device)
        self.memory, self.lengths = self.memory[index], self.lengths[index]
        if self.cache:
            self.cache.take(places)


def bounded(rows: Sequence[Target]) -> list[list[Target]]:
    """Rows in groups that an encoder can read at once."""
    groups: list[list[Target]] = []
    longest = 0
    for row in rows:
        longest = max(longest, len(row.source))
        if not groups or (len(groups[-1]) + 1) * longest**2 > LARGEST:
            groups.append([])
            longest = len(row.source)
        groups[-1].append(row)
    return groups


def below(memory: Tensor | None, other: Tensor, length: int) -> Tensor:
    """Two memories as one, for sources of at most this length."""
    both = [F.pad(each[..., :length, :], (0, 0, 0, max(0, length - each.size(-2)))) for each in (memory, other) if each is not None]
    return torch.cat(both)
