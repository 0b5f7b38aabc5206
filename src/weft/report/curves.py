"""What a figure of curves shows, and how curves are made fewer, smoother or one of several."""

from __future__ import annotations

import csv
import io
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from weft.runs.record import Points

MOST = 400
"""Points drawn of one curve; where there are more, neighbours are averaged."""
FAR = 50
"""Times the smallest value that the largest is, from where a logarithmic scale is shown first."""

Band = Sequence[tuple[float, float, float]]
"""(x, lowest, highest)."""


@dataclass(frozen=True)
class Curve:
    label: str
    points: Points
    style: str
    """Name of its colour in page.css."""
    noisy: bool = False
    """Drawn faintly, its running mean over it."""
    band: Band = ()
    """How far the points spread, drawn as an area behind them."""

    def line(self) -> Points:
        """What is drawn strongly."""
        return smooth(thin(self.points)) if self.noisy else thin(self.points)


@dataclass(frozen=True)
class Panel:
    """One figure of curves that are counted in one unit."""

    title: str
    curves: Sequence[Curve]
    up: str = ""
    """What the vertical axis counts; empty is the title, without what it is drawn by."""
    across: str = "step"
    """What the horizontal axis counts."""
    shade: bool = False
    """Fill what lies between the first two curves, the generalisation gap."""
    tall: bool = False
    log: bool | None = None
    """Show the logarithmic scale first; None where the largest value is many times the smallest."""

    def axis(self) -> str:
        """What is written at the vertical axis."""
        return self.up or self.title.partition(", by ")[0]

    def drawn(self) -> list[Curve]:
        return [curve for curve in self.curves if curve.points]

    def values(self) -> list[float]:
        """Every value that is drawn."""
        found = [y for curve in self.drawn() for _, y in thin(curve.points)]
        return found + [value for curve in self.drawn() for _, *pair in curve.band for value in pair]

    def scales(self) -> list[str]:
        """Linear and, where every value is positive, logarithmic; the one that is shown first comes first."""
        values = self.values()
        if not values or min(values) <= 0 or max(values) <= 1.05 * min(values):
            return ["linear"]
        log = max(values) > FAR * min(values) if self.log is None else self.log
        return ["log", "linear"] if log else ["linear", "log"]

    def ends(self) -> tuple[float, float]:
        """From where to where the horizontal axis goes."""
        places = [x for curve in self.drawn() for x, _ in curve.points]
        return min(0.0, *places), max(places)

    def gap(self) -> Points:
        """The outline of the generalisation gap."""
        curves = self.drawn()
        return between(curves[0].line(), curves[1].line()) if self.shade and len(curves) > 1 else []

    def csv(self) -> str:
        """Every value, in rows: the curve, where, the value, and the ends of the band where there is one."""
        banded = any(curve.band for curve in self.curves)
        body: list[list[object]] = []
        for curve in self.drawn():
            spread = {x: pair for x, *pair in curve.band}
            body += [[curve.label, short_of(x), y, *(spread.get(x, ["", ""]) if banded else [])] for x, y in curve.points]
        return table_csv(["curve", self.across, self.axis(), *(["low", "high"] if banded else [])], body)


def table_csv(head: Sequence[str], body: Iterable[Sequence[object]]) -> str:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows([head, *body])
    return stream.getvalue()


def short_of(x: float) -> float | int:
    return int(x) if float(x).is_integer() else x


def mean_of(runs: Sequence[Points]) -> tuple[Points, Band]:
    """The mean of several curves where all of them have a value, and the standard deviation of one on both sides of it."""
    tables = [dict(points) for points in runs]
    places = sorted(set.intersection(*(set(table) for table in tables)))
    values = [[table[x] for table in tables] for x in places]
    means = [statistics.fmean(row) for row in values]
    spread = [statistics.stdev(row) for row in values]
    return list(zip(places, means)), [(x, mean - s, mean + s) for x, mean, s in zip(places, means, spread)]


def thin(points: Points) -> Points:
    """At most MOST points, each the mean of its neighbours."""
    size = math.ceil(len(points) / MOST)
    groups = [points[i : i + size] for i in range(0, len(points), size)] if size > 1 else [[point] for point in points]
    return [(sum(x for x, _ in g) / len(g), sum(y for _, y in g) / len(g)) for g in groups]


def smooth(points: Points) -> Points:
    """Mean over a window around each point, narrower towards both ends, so that the curve does not lag behind."""
    reach = len(points) // 50
    sums = list(accumulate((y for _, y in points), initial=0.0))
    found = []
    for i, (x, _) in enumerate(points):
        near = min(reach, i, len(points) - 1 - i)
        found.append((x, (sums[i + near + 1] - sums[i - near]) / (2 * near + 1)))
    return found


def between(first: Points, second: Points) -> Points:
    """The outline of what lies between two curves where both exist."""
    start, end = max(first[0][0], second[0][0]), min(first[-1][0], second[-1][0])
    inside = [(x, y) for x, y in second if start <= x <= end]
    if len(inside) < 2:
        return []
    steps = sorted({x for x, _ in inside} | {x for x, _ in first if inside[0][0] <= x <= inside[-1][0]})
    return inside + [(x, at(first, x)) for x in reversed(steps)]


def at(points: Points, x: float) -> float:
    """A curve's height at x, by straight lines between its points."""
    for (x0, y0), (x1, y1) in pairwise(points):
        if x0 <= x <= x1:
            return y0 + (y1 - y0) * (x - x0) / (x1 - x0) if x1 > x0 else y1
    return points[-1][1] if x > points[-1][0] else points[0][1]
