"""Curves as inline SVG, without a plotting library.

The drawing is stretched to the width of the page while strokes keep theirs; the axes' numbers are HTML, so that they stay
readable on a phone. A small script (page.js) adds values under the pointer and the change of scale.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from typing import Any

from weft.report import figures
from weft.report.curves import Curve, Panel, thin
from weft.report.drawing import Place
from weft.report.scales import height, limits, log_ticks, share, short, ticks
from weft.runs.record import Points

SIZE = 1000
"""Units of the drawing in both directions."""


def chart(title: str, curves: Sequence[Curve], **settings: Any) -> str:
    """One figure of curves; settings are those of a panel."""
    return panel(Panel(title, curves, **settings))


def panel(shown: Panel) -> str:
    """One figure on a linear and, where every value is positive, a logarithmic scale, with its files to save."""
    curves = shown.drawn()
    if not curves:
        return ""
    scales, gap, ends = shown.scales(), shown.gap(), shown.ends()
    plots = "".join(plot(scale, shown, gap) for scale in sorted(scales))
    keys = "".join(f'<span class="key {curve.style}">{escape(curve.label)}</span>' for curve in curves)
    keys += '<span class="key gap">generalisation gap</span>' if gap else ""
    legend = f'<span class="legend">{keys}</span>' if len(curves) > 1 or shown.tall or curves[0].band else ""
    button = f'<button type="button" class="scale">{scales[1]} scale</button>' if len(scales) > 1 else ""
    below = "".join(f'<span style="left:{100 * share(x, ends):.2f}%">{short(x)}</span>' for x in ticks(*ends, 5))
    drawn = [{"label": c.label, "style": c.style, "points": rounded(c.points)} for c in curves]
    data = {"left": ends[0], "right": ends[1], "across": shown.across, "gap": bool(gap), "curves": drawn}
    return (
        f'<figure class="chart{" tall" if shown.tall else ""}{" log" if scales[0] == "log" else ""}">'
        f"<figcaption><b>{escape(shown.title)}</b>{legend}{button}</figcaption>"
        f'<div class="unit">{escape(shown.axis())}</div>'
        f'<div class="plot">{plots}<div class="cursor"></div><div class="tip"></div></div><div class="below">{below}</div>'
        f'<div class="across"><span class="unit">{escape(shown.across)}</span>{figures.links(figures.of_panel(shown))}</div>'
        f'<script type="application/json">{embed(data)}</script></figure>\n'
    )


def plot(scale: str, shown: Panel, gap: Points) -> str:
    """The drawing on one scale, with the numbers of its vertical axis."""
    ends, (low, high) = shown.ends(), limits(shown.values(), scale)
    tick_values = ticks(low, high, 5) if scale == "linear" else log_ticks(low, high)

    def place(x: float, y: float) -> tuple[float, float]:
        return share(x, ends) * SIZE, height(y, low, high, scale) * SIZE

    grid = "".join(f"M0 {place(0, y)[1]:.1f}H{SIZE}" for y in tick_values)
    grid += "".join(f"M{share(x, ends) * SIZE:.1f} 0V{SIZE}" for x in ticks(*ends, 5))
    body = f'<path class="grid" d="{grid}"/>'
    if gap:
        body += f'<path class="gap" d="{path(gap, place)}Z"/>'
    body += "".join(strokes(curve, place) for curve in shown.drawn())
    left = "".join(f'<span style="top:{place(0, y)[1] / SIZE:.2%}">{short(y)}</span>' for y in tick_values)
    svg = f'<svg viewBox="0 0 {SIZE} {SIZE}" preserveAspectRatio="none" aria-hidden="true">{body}</svg>'
    return f'<div class="on-{scale}"><div class="left">{left}</div>{svg}</div>'


def strokes(curve: Curve, place: Place) -> str:
    """One curve with what lies behind it."""
    body = ""
    if curve.band:
        outline = [(x, high) for x, _, high in curve.band] + [(x, low) for x, low, _ in reversed(curve.band)]
        body += f'<path class="band {curve.style}" d="{path(outline, place)}Z"/>'
    if curve.noisy:
        body += f'<path class="line faint {curve.style}" d="{path(thin(curve.points), place)}"/>'
    body += f'<path class="line {curve.style}" d="{path(curve.line(), place)}"/>'
    if len(curve.points) <= 40 and not curve.noisy:  # a stroke of no length with round ends is a dot of constant size
        body += f'<path class="dots {curve.style}" d="{"".join("M{:.1f} {:.1f}h0".format(*place(x, y)) for x, y in curve.points)}"/>'
    return body


def path(points: Points, place: Place) -> str:
    """An SVG path through points; a single one becomes a short stroke."""
    where = [place(x, y) for x, y in points]
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in where) + ("h0.1" if len(where) == 1 else "")


def rounded(points: Points) -> Points:
    return [(x, float(f"{y:.5g}")) for x, y in points]


def embed(data: object) -> str:
    """JSON that may stand inside a script element."""
    return json.dumps(data, separators=(",", ":")).replace("</", "<\\/")
