"""The game J = -x y, one player making it small by x, the other large by y (Salimans et al., 2016, arXiv:1606.03498, section 3).

Its only equilibrium is the origin. Simultaneous gradient steps rotate and grow by sqrt(1 + rate²) each; alternating ones stay on a
closed orbit; a step that looks ahead (extragradient, Korpelevich, 1976) and a pull to the mean of the past (historical averaging)
both lead in, the latter the faster the weaker it pulls, as the mean is slow to forget. Points are (x, y).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from weft.core.config import Config
from weft.report.curves import Curve
from weft.report.svg import chart
from weft.studies.base import Finding

Point = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Settings(Config):
    rate: float = 0.1
    """Size of a step."""
    steps: int = 1000
    """Steps of each player."""
    pull: float = 0.1
    """Weight of historical averaging."""


def simultaneous(start: Point, rate: float, steps: int) -> list[Point]:
    """Both move by the gradient at the point where both were: x by y, y by -x."""
    course = [start]
    for _ in range(steps):
        x, y = course[-1]
        course.append((x + rate * y, y - rate * x))
    return course


def alternating(start: Point, rate: float, steps: int) -> list[Point]:
    """The second player sees where the first has gone."""
    course = [start]
    for _ in range(steps):
        x, y = course[-1]
        x = x + rate * y
        course.append((x, y - rate * x))
    return course


def extragradient(start: Point, rate: float, steps: int) -> list[Point]:
    """Both move by the gradient at the point to which a plain step would lead."""
    course = [start]
    for _ in range(steps):
        x, y = course[-1]
        ahead_x, ahead_y = x + rate * y, y - rate * x
        course.append((x + rate * ahead_y, y - rate * ahead_x))
    return course


def historical(start: Point, rate: float, steps: int, pull: float = 0.1) -> list[Point]:
    """Simultaneous steps with the gradient of pull * |point - mean of all points so far|² added."""
    course, mean = [start], start
    for number in range(1, steps + 1):
        x, y = course[-1]
        back_x, back_y = 2 * pull * (x - mean[0]), 2 * pull * (y - mean[1])
        course.append((x + rate * (y - back_x), y - rate * (x + back_y)))
        mean = (mean[0] + (course[-1][0] - mean[0]) / (number + 1), mean[1] + (course[-1][1] - mean[1]) / (number + 1))
    return course


def radius(point: Point) -> float:
    return math.hypot(*point)


def study(settings: Settings) -> Finding:
    """How far from the equilibrium each way of taking turns leads."""
    ways: dict[str, Callable[[Point, float, int], list[Point]]] = {
        "simultaneous": simultaneous,
        "alternating": alternating,
        "extragradient": extragradient,
        "historical averaging": lambda start, rate, steps: historical(start, rate, steps, settings.pull),
    }
    found = {name: way((1.0, 0.0), settings.rate, settings.steps) for name, way in ways.items()}
    curves = [
        Curve(name, [(i, radius(point)) for i, point in enumerate(points)], f"c{n}") for n, (name, points) in enumerate(found.items())
    ]
    growth = math.sqrt(1 + settings.rate**2)
    rows = tuple((name, f"{radius(points[-1]):.4g}", f"{max(map(radius, points)):.4g}") for name, points in found.items())
    claim = f"Simultaneous steps of {settings.rate:g} leave the equilibrium of J = -xy by a factor of {growth:.5f} each"
    claim += f" ({growth**settings.steps:.4g} after {settings.steps}); alternating ones go round it;"
    claim += " extragradient and historical averaging reach it."
    figure = chart("distance from the equilibrium, by step", curves, tall=True)
    return Finding("The game J = -xy", claim, ("way", "distance at the end", "largest"), rows, figure)
