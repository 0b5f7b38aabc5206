"""Sequences that a model reads on, a row each: every token once where the model has a cache, else all of them again.

Shapes: D width.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from weft.inference.prefill_graphs import PrefillGraphs
from weft.kernels import decode_step
from weft.kernels.c import cpu_decode_step
from weft.models.base import Decodes, offers
from weft.nn.state import KVCache

FILLER = 0
"""Read where a row has fewer new tokens than others; nothing sees it."""


class ModelRunner:
    """What a row gives does not depend on the rows beside it, but for the order in which numbers are added up."""

    def __init__(self, model: Any, *, cached: bool = True, invariant: bool = False, prompts: PrefillGraphs | None = None):
        """cached: read every token once, where the model can. invariant: what `step` gives to a row, or `read` to one that is read whole,
        is the same to the last bit, whatever rows are beside it. prompts: what reads rows from their first token on."""
        self.invariant = invariant
        self.prompts = prompts
        self.model, self.ids = model, list[list[int]]()
        self.context: int = getattr(getattr(model, "config", None), "context", 0)
        self.device = next(model.parameters()).device
        self.cache = model.new_cache() if cached and offers(model, Decodes) else None
        self.steps: Any = None
        if self.cache and decode_step.fits(model):
            self.steps = decode_step.DecodeStep(model, invariant=invariant)
        elif self.cache and cpu_decode_step.fits(model):
            self.steps = cpu_decode_step.CPUDecodeStep(model)
            self.cache.parts = self.cache.parts.float()  # one row looks at them sooner than at those of 16 bits

    def __len__(self) -> int:
        return len(self.ids)

    def add_rows(self, number: int) -> None:
        self.ids += [[] for _ in range(number)]
        if self.cache:
            self.cache.add_rows(number)

    @torch.inference_mode()
    def read(self, new: Sequence[Sequence[int]]) -> list[Tensor]:
        """New tokens of each row, also none -> the states of these tokens (N, D) for each row.

        A row that is longer than the model's context is seen through its last tokens, which are then read again each time.
        """
        for ids, more in zip(self.ids, new, strict=True):
            ids += more
        whole = [row for row, ids in enumerate(self.ids) if new[row] and (not self.cache or 0 < self.context < len(ids))]
        counts = [0 if row in whole else len(more) for row, more in enumerate(new)]
        states: list[Any] = [torch.empty(0, device=self.device)] * len(new)
        if self.cache and any(counts):
            hidden = (self.prompts or self.model).hidden(self._filled([more[:n] for more, n in zip(new, counts, strict=True)]), self.cache)
            self.cache.count(counts)
            states = [hidden[row, :n] for row, n in enumerate(counts)]
        for rows in self._alike(whole):
            seen = torch.tensor([self.ids[row][-self.context :] for row in rows], device=self.device)
            for row, found in zip(rows, self.model.hidden(seen), strict=True):
                states[row] = found[len(found) - len(new[row]) :]
        return states

    def has_room(self) -> bool:
        """Whether every row can be read on by `step`."""
        return self.cache is not None and all(0 < length < self.cache.room for length in self.cache.lengths)

    @torch.inference_mode()
    def step(self, last: Tensor) -> Tensor:
        """The last token of each row (R,), which the host need not know yet -> logits (R, V). Only the cache notes what was read."""
        assert self.cache is not None
        if isinstance(self.steps, decode_step.DecodeStep):  # which was told of it
            return self.steps(last, self.cache)
        if not self.invariant:
            return self._step(last, self.cache)
        self.cache.make_room(len(last), max(self.cache.lengths) + 1)  # each row by itself, as if it were alone
        logits = [self._step(last[row : row + 1], self.cache.row(row)) for row in range(len(last))]
        self.cache.count([1] * len(last))
        return torch.cat(logits)

    def _step(self, last: Tensor, cache: KVCache) -> Tensor:
        if self.steps:
            read: Tensor = self.steps(last, cache)
            return read
        logits: Tensor = self.model.head(self.model.hidden(last[:, None], cache)[:, -1])
        cache.count([1] * len(last))
        return logits

    def _filled(self, new: Sequence[Sequence[int]]) -> Tensor:
        """Tokens of all rows (B, T), filled up on the right."""
        longest = max(map(len, new))
        return torch.tensor([[*more, *[FILLER] * (longest - len(more))] for more in new], device=self.device)

    def _alike(self, rows: Sequence[int]) -> list[list[int]]:
        """Rows of the same length together: those that are read whole need no filling up."""
        groups = defaultdict(list)
        for row in rows:
            groups[row if self.invariant else len(self.ids[row])].append(row)
        return list(groups.values())

    def join(self, other: ModelRunner, row: int | None = None) -> None:
        """Copy the rows of another reader of the same model, or one of them, behind one's own."""
        self.ids += [list(ids) for ids in (other.ids if row is None else other.ids[row : row + 1])]
        if self.cache and other.cache:
            self.cache.join(other.cache, row)

    def cut(self, row: int, length: int) -> None:
        """Forget what a row holds from so many tokens on."""
        del self.ids[row][length:]
        if self.cache:
            self.cache.cut(row, length)

    def take(self, rows: Sequence[int]) -> None:
        """Keep these rows in this order; one may be taken more than once, as a beam does."""
        self.ids = [list(self.ids[row]) for row in rows]
        if self.cache:
            self.cache.take(rows)

    def drop(self, row: int) -> None:
        """End a row; the last one takes its place."""
        self.ids[row] = self.ids[-1]
        self.ids.pop()
        if self.cache:
            self.cache.drop(row)
