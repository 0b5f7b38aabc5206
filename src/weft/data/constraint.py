"""What an answer may say next, where not everything is an answer: brackets that balance, a form to be filled in, a grammar.

A constraint is an automaton over tokens. Whoever decodes asks it which tokens are allowed and tells it which one was chosen; both the
sampler and the beam search do. A state is a value: it is never changed, so that several hypotheses can go on from one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:  # data is built from texts without it
    from torch import Tensor

State = Any


class Constraint(Protocol):
    """Says which tokens may follow those of an answer so far."""

    def start(self) -> State:
        """Before the first token of an answer."""

    def advance(self, state: State, token: int) -> State:
        """After one more token, which was allowed."""

    def allowed(self, state: State, room: int) -> Tensor:
        """Which tokens may follow (V,), bool, of which one is at least; the model's END is among them where an answer may end here.

        room: how many tokens are left, END counted. Where the answer can still be brought to an end in these, only tokens are allowed
        after which it still can.
        """
