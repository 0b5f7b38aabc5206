"""How many trials a sweep begins, and how far each goes before some are left behind.

Grid and random search train every trial to the end. Successive halving (Jamieson and Talwalkar, 2016, arXiv:1502.07943) trains all for a
few steps and goes on with the best one in three; Hyperband (Li et al., 2018, arXiv:1603.06560) does this for several compromises between
many trials and long ones. A trial that goes on is resumed exactly, so that it ends as if it had never been stopped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from weft.core.errors import ConfigError

Method = Literal["auto", "grid", "random", "halving", "hyperband"]
RANDOM = 16
"""Trials of a random search that does not say how many."""


@dataclass(frozen=True)
class Bracket:
    """Trials that compete: so many begin, and at each rung (a number of steps) the best of them go on to the next."""

    trials: int
    rungs: tuple[int, ...]


def brackets(method: Method, trials: int, steps: int, every: int, eta: int) -> list[Bracket]:
    """What a method does with so many trials of so many steps, validated every so often; one in `eta` goes on."""
    if eta < 2:
        raise ConfigError(f"--eta must be at least 2, not {eta}")
    if method == "halving":
        return [Bracket(trials, rungs(steps, every, eta, power(trials, eta)))]
    if method == "hyperband":
        most = power(max(steps // every, 1), eta)
        return [Bracket(math.ceil((most + 1) / (s + 1) * eta**s), rungs(steps, every, eta, s)) for s in range(most, -1, -1)]
    return [Bracket(trials, (steps,))]


def power(number: int, eta: int) -> int:
    """How often a number can be divided by eta before it is below 1."""
    found = 0
    while eta ** (found + 1) <= number:
        found += 1
    return found


def rungs(steps: int, every: int, eta: int, count: int) -> tuple[int, ...]:
    """Steps / eta ** count, …, steps / eta, steps, where all but the last are steps at which the run is validated."""
    early = [math.ceil(steps / eta**i / every) * every for i in range(count, 0, -1)]
    return (*dict.fromkeys(step for step in early if step < steps), steps)


def kept(trials: int, eta: int) -> int:
    """How many of some trials go on."""
    return max(1, trials // eta)
