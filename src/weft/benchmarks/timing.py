"""How long a step takes on a device that works behind the program's back."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch

GROUP = 5
"""Steps that are timed together, so that the device is not waited for at each."""


def timed(step: Callable[[], object], steps: int, warm: int) -> float:
    """Milliseconds of the median step, after some that count for nothing."""
    for _ in range(warm):
        step()
    taken = []
    for _ in range(max(1, steps // GROUP)):
        synchronise()
        begin = time.perf_counter()
        for _ in range(GROUP):
            step()
        synchronise()
        taken.append((time.perf_counter() - begin) / GROUP * 1e3)
    return statistics.median(taken)


def synchronise() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
