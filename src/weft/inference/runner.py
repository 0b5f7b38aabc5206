"""Sequences that a model reads on, a row each: every token once where the model carries a state, else all of them again.

Shapes: B rows, T new tokens, N tokens of a row, D width, V vocabulary.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from weft.inference.prefill_graphs import PrefillGraphs
from weft.kernels import select
from weft.kernels.c.cpu_decode_step import CPUDecodeStep
from weft.kernels.decode_step import DecodeStep
from weft.models.base import Decodes, offers
from weft.nn.state import KVCache, SequenceState, Snapshot

PADDING = 0
"""The token read where a row has fewer new tokens than others; nothing sees it."""


class ModelRunner:
    """What a row gives does not depend on the rows beside it, but for the order in which numbers are added up."""

    def __init__(self, model: Any, *, cached: bool = True, batch_invariant: bool = False, graphs: PrefillGraphs | None = None):
        """cached: read every token once, where the model can. batch_invariant: what `decode` gives to a row, and `prefill` to one that is
        alone, is the same to the last bit, whatever rows are beside it. graphs: what reads rows from their first token on."""
        self.batch_invariant = batch_invariant
        self.graphs = graphs
        self.model, self.ids = model, list[list[int]]()
        self.device = next(model.parameters()).device
        self.state: SequenceState | None = model.new_state() if cached and offers(model, Decodes) else None
        limit = self.state.limit if self.state else getattr(getattr(model, "config", None), "context", 0)
        self.context: int = limit or 0
        """Most tokens that the model sees; 0 where there is no limit."""

    @cached_property
    def decode_step(self) -> Any:
        """What reads one more token of each row, chosen when first asked for; None where the model's own layers do."""
        if type(self.state) is not KVCache:  # a kind of one may keep other keys than a kernel would
            return None
        made = select.decoder(self.model, batch_invariant=self.batch_invariant)
        if isinstance(made, CPUDecodeStep):
            self.state.kv = self.state.kv.float()  # one row looks at them sooner than at those of 16 bits
        return made

    def __len__(self) -> int:
        return len(self.ids)

    def add_rows(self, number: int) -> None:
        self.ids += [[] for _ in range(number)]
        if self.state:
            self.state.add_rows(number)

    @torch.inference_mode()
    def prefill(self, new: Sequence[Sequence[int]]) -> list[Tensor]:
        """New tokens of each row, also none -> the hidden states of these tokens (N, D) for each row.

        A row that is longer than the model's context is seen through its last tokens, which are then read again each time.
        """
        for ids, more in zip(self.ids, new, strict=True):
            ids += more
        whole = [row for row, ids in enumerate(self.ids) if new[row] and (not self.state or len(ids) > self.context > 0)]
        counts = [0 if row in whole else len(more) for row, more in enumerate(new)]
        states: list[Any] = [torch.empty(0, device=self.device)] * len(new)
        if self.state and any(counts):
            padded = self._padded([more[:n] for more, n in zip(new, counts, strict=True)])
            lengths = torch.tensor(counts, device=self.device) if min(counts) < max(counts) else None
            reader: Any = self.graphs or self.model
            hidden = reader.hidden(padded, self.state, lengths)
            self.state.count(counts)
            states = [hidden[row, :n] for row, n in enumerate(counts)]
        for rows in self._of_equal_length(whole):
            seen = torch.tensor([self.ids[row][-self.context :] for row in rows], device=self.device)
            for row, hidden in zip(rows, self.model.hidden(seen), strict=True):
                states[row] = hidden[len(hidden) - len(new[row]) :]
        return states

    def can_decode(self) -> bool:
        """Whether every row has begun and has room for one more token."""
        if self.state is None:
            return False
        limit = self.state.limit
        return all(length > 0 and (limit is None or length < limit) for length in self.state.lengths)

    @torch.inference_mode()
    def decode(self, last: Tensor) -> Tensor:
        """The last token of each row (B,), which the host need not know yet -> logits (B, V). Only the state notes what was read."""
        assert self.state is not None
        if isinstance(self.decode_step, DecodeStep) and isinstance(self.state, KVCache):  # invariant by itself
            return self.decode_step(last, self.state)
        if not self.batch_invariant:
            return self._decode(last, self.state)
        self.state.reserve(len(last), max(self.state.lengths) + 1)  # each row by itself, as if it were alone
        logits = [self._decode(last[row : row + 1], self.state.row(row)) for row in range(len(last))]
        self.state.count([1] * len(last))
        return torch.cat(logits)

    def _decode(self, last: Tensor, state: SequenceState) -> Tensor:
        if self.decode_step:
            logits: Tensor = self.decode_step(last, state)
            return logits
        logits = self.model.head(self.model.hidden(last[:, None], state)[:, -1])
        state.count([1] * len(last))
        return logits

    def _padded(self, new: Sequence[Sequence[int]]) -> Tensor:
        """Tokens of all rows (B, T), padded on the right."""
        longest = max(map(len, new))
        return torch.tensor([[*more, *[PADDING] * (longest - len(more))] for more in new], device=self.device)

    def _of_equal_length(self, rows: Sequence[int]) -> list[list[int]]:
        """Rows of the same length together: those that are read whole need no padding."""
        groups = defaultdict(list)
        for row in rows:
            groups[row if self.batch_invariant else len(self.ids[row])].append(row)
        return list(groups.values())

    def join(self, other: ModelRunner, row: int | None = None) -> None:
        """Copy the rows of another runner of the same model, or one of them, behind one's own."""
        self.ids += [list(ids) for ids in (other.ids if row is None else other.ids[row : row + 1])]
        if self.state and other.state:
            self.state.join(other.state, row)

    def restore(self, row: int, ids: Sequence[int], snapshot: Snapshot) -> None:
        """Put the first tokens of a snapshot, these ids, in the place of what a row holds."""
        assert self.state is not None
        self.ids[row] = list(ids)
        self.state.restore(row, snapshot, len(ids))

    def snapshot(self, row: int) -> Snapshot | None:
        """What `rewind` needs to come back to a row as it is now; nothing where the row can be truncated."""
        return None if self.state is None or self.state.can_truncate else self.state.snapshot(row)

    def rewind(self, row: int, length: int, snapshot: Snapshot | None) -> None:
        """Forget what a row holds behind so many tokens, and where it must go back to a snapshot, behind that."""
        if len(self.ids[row]) <= length:
            return
        if snapshot is None:
            del self.ids[row][length:]
            if self.state:
                self.state.truncate(row, length)
        else:
            self.restore(row, self.ids[row][: snapshot.length], snapshot)

    def select(self, rows: Sequence[int]) -> None:
        """Keep these rows in this order; one may be taken more than once, as beam search does."""
        self.ids = [list(self.ids[row]) for row in rows]
        if self.state:
            self.state.select(rows)

    def drop(self, row: int) -> None:
        """End a row; the last one takes its place."""
        self.ids[row] = self.ids[-1]
        self.ids.pop()
        if self.state:
            self.state.drop(row)
