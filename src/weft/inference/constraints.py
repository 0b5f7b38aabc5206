"""Constraints (weft.data.constraint) of the rows of a batch, as the sampler and the beam search ask for them.

Shapes: B rows, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from weft.data.constraint import Constraint as Constraint
from weft.data.constraint import State


class Constraints:
    """Where each row of a batch is in its constraint; None where a row may say anything."""

    def __init__(self, constraints: Sequence[Constraint | None], answers: Sequence[Sequence[int]] = ()):
        """answers: what each row has said already."""
        self.constraints = list(constraints)
        self.states: list[State] = [None if one is None else one.start() for one in self.constraints]
        for row, answer in enumerate(answers):
            for token in answer:
                self._advance(row, token)

    def __bool__(self) -> bool:
        return any(one is not None for one in self.constraints)

    def forbidden(self, vocabulary: int, rooms: Sequence[int], device: Any) -> Tensor:
        """Which tokens no row may say next (B, V). rooms: how many tokens each has left."""
        found = torch.zeros(len(self.constraints), vocabulary, dtype=torch.bool)
        for row, (one, state, room) in enumerate(zip(self.constraints, self.states, rooms, strict=True)):
            if one is not None and state is not None:
                allowed = one.allowed(state, room)
                found[row, : len(allowed)] = ~allowed
                found[row, len(allowed) :] = True
        return found.to(device)

    def advance(self, tokens: Sequence[int], parents: Sequence[int] | None = None, real: Sequence[bool] | None = None) -> None:
        """Go on with a token in each row. parents: which rows these continue; real: False for those that stand for nothing."""
        if parents is not None:
            self.constraints = [self.constraints[row] for row in parents]
            self.states = [self.states[row] for row in parents]
        for row, token in enumerate(tokens):
            if real is None or real[row]:
                self._advance(row, token)
            else:
                self.states[row] = None

    def _advance(self, row: int, token: int) -> None:
        one, state = self.constraints[row], self.states[row]
        if one is not None and state is not None:
            self.states[row] = one.advance(state, token)

    def of_rows(self, rows: Sequence[int]) -> None:
        """Go on with these rows only."""
        self.constraints = [self.constraints[row] for row in rows]
        self.states = [self.states[row] for row in rows]
