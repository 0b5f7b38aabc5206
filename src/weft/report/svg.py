"""Curves as inline SVG, without a plotting library.

The drawing is stretched to the width of the page while strokes keep theirs; the axes' numbers are HTML, so that they stay
readable on a phone. A small script (page.js) adds values under the pointer and the change of scale.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate, pairwise

from weft.runs.record import Points

SIZE = 1000
"""Units of the drawing in both directions."""
MOST = 400
"""Points drawn of one curve; where there are more, neighbours are averaged."""
Place = Callable[[float, float], tuple[float, float]]


@dataclass(frozen=True)
class Curve:
    label: str
    points: Points
    style: str
    """Name of its colour in page.css."""
    noisy: bool = False
    """Drawn faintly, its running mean over it."""

    def line(self) -> Points:
        """What is drawn strongly."""
        return smooth(thin(self.points)) if self.noisy else thin(self.points)


def chart(title: str, curves: Sequence[Curve], shade: bool = False, tall: bool = False, across: str = "step", log: bool = False) -> str:
    """One figure on a linear and, where every value is positive, a logarithmic scale.

    shade: fill what lies between the first two curves, the generalisation gap. across: what the horizontal axis counts. log: show
    the logarithmic scale first.
    """
    curves = [curve for curve in curves if curve.points]
    if not curves:
        return ""
    gap = between(curves[0].line(), curves[1].line()) if shade and len(curves) > 1 else []
    places = [x for curve in curves for x, _ in curve.points]
    ends = min(0.0, *places), max(places)
    values = [y for curve in curves for _, y in thin(curve.points)]
    scales = ["linear", "log"] if min(values) > 0 and max(values) > 1.05 * min(values) else ["linear"]
    plots = "".join(plot(scale, curves, gap, ends, values) for scale in scales)
    keys = "".join(f'<span class="key {curve.style}">{escape(curve.label)}</span>' for curve in curves)
    keys += '<span class="key gap">generalisation gap</span>' if gap else ""
    legend = f'<span class="legend">{keys}</span>' if tall else ""
    log = log and len(scales) > 1
    button = f'<button type="button" class="scale">{"linear" if log else "log"} scale</button>' if len(scales) > 1 else ""
    below = "".join(f'<span style="left:{100 * share(x, ends):.2f}%">{short(x)}</span>' for x in ticks(*ends, 5))
    drawn = [{"label": c.label, "style": c.style, "points": rounded(c.points)} for c in curves]
    data = {"left": ends[0], "right": ends[1], "across": across, "gap": bool(gap), "curves": drawn}
    return (
        f'<figure class="chart{" tall" if tall else ""}{" log" if log else ""}">'
        f"<figcaption><b>{escape(title)}</b>{legend}{button}</figcaption>"
        f'<div class="plot">{plots}<div class="cursor"></div><div class="tip"></div></div><div class="below">{below}</div>'
        f'<script type="application/json">{embed(data)}</script></figure>\n'
    )


def share(x: float, ends: tuple[float, float]) -> float:
    """How far along the horizontal axis x lies, from 0 to 1."""
    return (x - ends[0]) / (ends[1] - ends[0] or 1.0)


def plot(scale: str, curves: Sequence[Curve], gap: Points, ends: tuple[float, float], values: list[float]) -> str:
    """The drawing on one scale, with the numbers of its vertical axis."""
    low, high = limits(values, scale)
    tick_values = ticks(low, high, 5) if scale == "linear" else log_ticks(low, high)

    def height(y: float) -> float:
        return 1 - ((y - low) / (high - low) if scale == "linear" else math.log(y / low) / math.log(high / low))

    def place(x: float, y: float) -> tuple[float, float]:
        return share(x, ends) * SIZE, height(y) * SIZE

    grid = "".join(f"M0 {height(y) * SIZE:.1f}H{SIZE}" for y in tick_values)
    grid += "".join(f"M{share(x, ends) * SIZE:.1f} 0V{SIZE}" for x in ticks(*ends, 5))
    body = f'<path class="grid" d="{grid}"/>'
    if gap:
        body += f'<path class="gap" d="{path(gap, place)}Z"/>'
    for curve in curves:
        if curve.noisy:
            body += f'<path class="line faint {curve.style}" d="{path(thin(curve.points), place)}"/>'
        body += f'<path class="line {curve.style}" d="{path(curve.line(), place)}"/>'
        if len(curve.points) <= 40 and not curve.noisy:  # a stroke of no length with round ends is a dot of constant size
            body += f'<path class="dots {curve.style}" d="{"".join("M{:.1f} {:.1f}h0".format(*place(x, y)) for x, y in curve.points)}"/>'
    left = "".join(f'<span style="top:{100 * height(y):.2f}%">{short(y)}</span>' for y in tick_values)
    svg = f'<svg viewBox="0 0 {SIZE} {SIZE}" preserveAspectRatio="none" aria-hidden="true">{body}</svg>'
    return f'<div class="on-{scale}"><div class="left">{left}</div>{svg}</div>'


def path(points: Points, place: Place) -> str:
    """An SVG path through points; a single one becomes a short stroke."""
    where = [place(x, y) for x, y in points]
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in where) + ("h0.1" if len(where) == 1 else "")


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


def limits(values: list[float], scale: str) -> tuple[float, float]:
    """A range with a little room above and below."""
    low, high = min(values), max(values)
    if scale == "log":
        room = (high / low) ** 0.04
        return low / room, high * room
    room = 0.04 * (high - low) or 0.05 * abs(high) or 1.0
    return (low - room if low < 0 or low > room else 0.0), high + room


def ticks(low: float, high: float, count: int) -> list[float]:
    """About `count` round numbers inside a range."""
    raw = (high - low) / count or 1.0
    power = 10 ** math.floor(math.log10(raw))
    step = next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= raw * 0.999)
    return [round(i * step, 12) for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Round numbers of a logarithmic range: 1, 2, 5 of every decade, fewer where it is long, linear ones where it is short."""
    if high / low < 6:
        return [tick for tick in ticks(low, high, 5) if tick > 0]
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    digits = (1, 2, 5) if high / low < 1e3 else (1,)
    found = [digit * 10.0**power for power in decades for digit in digits if low <= digit * 10.0**power <= high]
    return found[:: max(1, math.ceil(len(found) / 7))]


def short(value: float) -> str:
    """15000 as 15k, 0.0002 as 2e-4, and few digits of anything else."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= max(size, 1e4):
            return f"{value / size:.4g}{letter}"
    if abs(value) >= 1e-3 or not value:
        return f"{value:.4g}"
    digits, _, power = f"{value:.2e}".partition("e")
    return f"{float(digits):g}e{int(power)}"


def rounded(points: Points) -> Points:
    return [(x, float(f"{y:.5g}")) for x, y in points]


def embed(data: object) -> str:
    """JSON that may stand inside a script element."""
    return json.dumps(data, separators=(",", ":")).replace("</", "<\\/")
