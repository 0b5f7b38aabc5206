"""Whether an answer is the same to the last bit beside any others: what that costs where, and what is done where nobody says.

In 16 bits the sums of a matrix product depend on how many rows are multiplied at once, so two tokens that are nearly as likely may change
places. An engine is batch invariant where each prompt is prefilled by itself and a step of decoding adds up in an order that does not know
the number of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from weft.kernels import decode_step

MOST = 0.15
"""Share of the speed that batch invariance may cost and still be the default."""


@dataclass(frozen=True)
class Invariance:
    on: bool
    cost: str = ""
    """What it costs where it is off; empty where it is on, or nothing is beside an answer."""

    @property
    def line(self) -> str:
        """For those who start an engine without it."""
        return (
            f"batch invariance is off: beside others an answer may differ in its last bits; --invariant costs {self.cost}"
            if self.cost
            else ""
        )


def choose(model: Any, slots: int) -> Invariance:
    """By default: on where it costs at most `MOST`, as `weft bench generation --divergence` measured."""
    if slots == 1:
        return Invariance(False)
    if decode_step.fits(model):  # whose kernels add up in one order whatever the number of rows
        return Invariance(True)
    parameter = next(model.parameters())
    if parameter.is_cuda:
        return Invariance(False, "as much time for each row as a row takes alone")
    return Invariance(False, cpu_cost(parameter.dtype))


def cpu_cost(dtype: torch.dtype) -> str:
    return "TODO"
