"""What a sweep tries of each setting: some values, or a range. Everything drawn is a function of the seed, so that a sweep goes on."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weft.core import config
from weft.core.errors import ConfigError
from weft.core.random import seed_of
from weft.recipes.base import Recipe
from weft.sweeps.syntax import NUMBER, RANGE

PATIENCE = 1000
"""Combinations in a row that were there before, after which there are no others."""
POINTS = 3
"""Of a range in a grid, where it does not say how many."""


@dataclass(frozen=True)
class Choices:
    """Some values of a setting."""

    values: tuple[Any, ...]

    @property
    def points(self) -> tuple[Any, ...]:
        return self.values

    finite = True

    def draw(self, share: float) -> Any:
        """The value at a share of the way through, 0 <= share < 1."""
        return self.values[int(share * len(self.values))]


@dataclass(frozen=True)
class Range:
    """Numbers from low to high; `log` where their ratios count, `integer` for whole ones, `count` points of it in a grid."""

    low: float
    high: float
    log: bool = False
    integer: bool = False
    count: int = 0

    @property
    def points(self) -> tuple[Any, ...]:
        number = self.count or POINTS
        return tuple(dict.fromkeys(self.at(i / (number - 1) if number > 1 else 0.5) for i in range(number)))

    @property
    def finite(self) -> bool:
        """Whether it was said how many points it has."""
        return self.count > 0

    def draw(self, share: float) -> Any:
        whole = self.integer and not self.log  # each whole number has an equal share
        return int(self.low + share * (self.high - self.low + 1)) if whole else self.at(share)

    def at(self, share: float) -> float | int:
        """The number at a share of the way, with three digits."""
        if self.log:
            value = math.exp(math.log(self.low) + share * (math.log(self.high) - math.log(self.low)))
        else:
            value = self.low + share * (self.high - self.low)
        return round(value) if self.integer else float(f"{value:.3g}")


Space = dict[str, Choices | Range]


def parse(name: str, given: Any, whole: bool) -> Choices | Range:
    """What to try of a setting: a sequence of values, "1e-4..1e-2:log", "64,128", or a single value. whole: only integers."""
    if isinstance(given, (list, tuple)):
        return Choices(tuple(given))
    if not isinstance(given, str):
        return Choices((given,))
    if found := RANGE.fullmatch(given.strip()):
        low, high, log, count = found.groups()
        made = Range(float(low), float(high), bool(log), whole, int(count or 0))
        if not made.low < made.high:
            raise ConfigError(f"--{name} {given}: the first number of a range is the smaller one, as in 1e-4..1e-2:log")
        if log and made.low <= 0:
            raise ConfigError(f"--{name} {given}: a range by ratios begins above 0; leave out :log")
        return made
    if ".." in given and re.match(NUMBER, given):
        raise ConfigError(f"--{name} {given}: a range is written LOW..HIGH, LOW..HIGH:log or LOW..HIGH:log:5 for five points of it")
    return Choices(tuple(part for part in given.split(",") if part))


def read(recipe: Recipe, given: Mapping[str, Any]) -> Space:
    """The space of a sweep, every end and every value of which the recipe takes."""
    if not given:
        raise ConfigError("a sweep needs a setting with several values, as --optim.lr 1e-4..1e-2:log or --model.width 64,128")
    known = config.leaves(recipe)
    space: Space = {}
    for name, what in given.items():
        space[name] = parse(name, what, known.get(name, (None, None))[0] is int)
        if not space[name].points:
            raise ConfigError(f"--{name}: no value is given; write as many as shall be tried, with commas between them")
        values = [config.leaves(config.override(recipe, {name: value})).get(name, (None, value))[1] for value in space[name].points]
        if isinstance(space[name], Choices):
            space[name] = Choices(tuple(dict.fromkeys(values)))
    return space


def grid(space: Space) -> list[dict[str, Any]]:
    """Every combination."""
    return [dict(zip(space, values, strict=True)) for values in itertools.product(*(part.points for part in space.values()))]


def draws(space: Space, seed: int) -> Iterator[dict[str, Any]]:
    """Different combinations, one after the other, which cover the space evenly; it ends where a space of few has no more.

    Each setting goes through its values by a step that is an irrational share of them (Roberts' R sequence), from a place that the seed
    gives: further combinations fill the gaps between those before (on search with such points: Bousquet et al., 2017, arXiv:1706.03200).
    """
    steps = dict(zip(space, irrational(len(space)), strict=True))
    begin = {name: seed_of(seed, "sweep", name) / 2.0**63 for name in space}
    seen: set[str] = set()
    misses = 0
    for number in itertools.count():
        found = {name: part.draw((begin[name] + number * steps[name]) % 1.0) for name, part in space.items()}
        misses = misses + 1 if folder_name(found) in seen else 0
        if misses > PATIENCE:
            return
        if not misses:
            seen.add(folder_name(found))
            yield found


def irrational(count: int) -> list[float]:
    """1/g, 1/g^2, …, where g is the root above 1 of x^(count + 1) = x + 1: for one setting, the golden ratio."""
    root = 2.0
    for _ in range(60):
        root = (1.0 + root) ** (1.0 / (count + 1))
    return [root ** -(place + 1) for place in range(count)]


def folder_name(settings: Mapping[str, Any]) -> str:
    """Settings as the name of a folder: optim.lr=0.001,model.width=64."""
    text = ",".join(f"{name}={shown(value)}" for name, value in settings.items())
    plain = re.sub(r"[^\w.,=+-]+", "-", text)
    return plain if plain == text and len(plain) <= 120 else f"{plain[:100]}-{seed_of(text) % 16**6:06x}"


def shown(value: Any) -> str:
    return " ".join(map(shown, value)) if isinstance(value, Sequence) and not isinstance(value, str) else str(value)
