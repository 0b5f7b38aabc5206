"""Metropolis-Hastings (Metropolis et al., 1953; Hastings, 1970): samples of any density known up to a factor.

From x a proposal draws x' ~ q(x' | x) and the chain moves there with the chance min(1, p(x') q(x | x') / (p(x) q(x' | x))),
else it stays. Then p(x) q(x' | x) a(x, x') is the same with x and x' exchanged (detailed balance), so p is left as it is; that
the chain also gets there needs a proposal by which every state can be reached and which does not go round in a fixed rhythm.

Shapes: B chains, states (B, ...), log-densities (B,), keys (B,).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from weft.core import random

LogDensity = Callable[[Tensor], Tensor]
"""States (B, ...) -> log p (B,), up to a constant."""
Proposal = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""States x (B, ...) and keys (B,) -> states x' and log q(x | x') - log q(x' | x) (B,), which is 0 for a symmetric proposal."""


@dataclass(frozen=True)
class Chains:
    """Where the chains are, every state they passed if it was kept, and how often they moved."""

    state: Tensor
    accepted: Tensor
    """Share of the proposals that each chain took, (B,)."""
    path: Tensor | None = None
    """States after every step, (steps, B, ...)."""


def log_acceptance(log_new: Tensor, log_old: Tensor, log_ratio: Tensor) -> Tensor:
    """Logarithm of the chance to move, from log p(x'), log p(x) and log q(x | x') - log q(x' | x)."""
    return (log_new - log_old + log_ratio).clamp(max=0)


@torch.no_grad()
def metropolis(density: LogDensity, propose: Proposal, state: Tensor, key: Tensor, steps: int, keep: bool = False) -> Chains:
    """Make so many steps from state (B, ...); `keep` returns every state on the way too."""
    log_old, accepted, path = density(state), torch.zeros(len(state), device=state.device), []
    for step in range(steps):
        own = random.fold(key, step)
        new, log_ratio = propose(state, random.fold(own, "proposal"))
        log_new = density(new)
        moves = random.uniform(random.fold(own, "acceptance")) < log_acceptance(log_new, log_old, log_ratio).exp()
        state = torch.where(moves.view(-1, *[1] * (state.ndim - 1)), new, state)
        log_old = torch.where(moves, log_new, log_old)
        accepted += moves
        if keep:
            path.append(state)
    kept = torch.stack(path) if path else state.new_empty(0, *state.shape)
    return Chains(state, accepted / max(1, steps), kept if keep else None)


def random_walk(deviation: float) -> Proposal:
    """A step of Gaussian noise from where the chain is: symmetric."""

    def propose(state: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        return state + deviation * random.normal(key, *state.shape[1:]).to(state.dtype), torch.zeros(len(state), device=state.device)

    return propose
