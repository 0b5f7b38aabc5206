"""What models with p(x) = exp(-E(x)) / Z over two-valued units share: exact sums where units are few, couplings of pairs.

Shapes: B batch, N units, S = 2^N states.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from weft.core.errors import CapabilityError

MOST = 20
"""Units over whose states a sum is still taken one by one: a million terms."""


def every_state(units: int, values: tuple[float, float] = (0.0, 1.0), like: Tensor | None = None) -> Tensor:
    """All states (S, N) of so many units; `like` has the type and place that are wanted."""
    if units > MOST:
        raise CapabilityError(f"a sum over all states of {units} units has 2^{units} terms; it is taken for at most {MOST} units")
    device = like.device if like is not None else None
    bits = torch.arange(2**units, device=device).unsqueeze(1) >> torch.arange(units, device=device) & 1
    low, high = values
    return torch.where(bits > 0, high, low).to(like.dtype if like is not None else torch.float32)


def log_partition(
    energy: Callable[[Tensor], Tensor], units: int, values: tuple[float, float] = (0.0, 1.0), like: Tensor | None = None
) -> Tensor:
    """log Z, the logarithm of the sum of exp(-E) over every state; exact and differentiable."""
    return torch.cat([-energy(some) for some in torch.split(every_state(units, values, like), 1 << 14)]).logsumexp(0)


def couplings(weight: Tensor) -> Tensor:
    """The symmetric matrix without a diagonal that a weight (N, N) stands for: its part above the diagonal, mirrored.

    So a pair of units has one number w, -x Wx / 2 is the sum of -w x x' over pairs, and its derivative by w is -x x' without
    a factor.
    """
    upper = weight.triu(1)
    return upper + upper.mT
