"""Points of the plane drawn in small squares, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

Points = Sequence[Sequence[float]]


def scatter(title: str, panels: Sequence[tuple[str, Sequence[tuple[Points, str]]]], reach: float) -> str:
    """A row of panels from -reach to reach, each a name and groups of points with the style of their dots."""
    drawn = "".join(panel(name, groups, reach) for name, groups in panels)
    row = f'<div style="display:flex;flex-wrap:wrap;gap:1em">{drawn}</div>'
    return f'<figure class="panels tall"><figcaption><b>{escape(title)}</b></figcaption>{row}</figure>\n'


def panel(name: str, groups: Sequence[tuple[Points, str]], reach: float) -> str:
    body = "".join(
        f'<path d="{dots(points, reach)}" class="dots {style}" style="stroke:var(--c);stroke-width:3"/>' for points, style in groups
    )
    frame = '<rect width="200" height="200" fill="none" stroke="currentColor" stroke-opacity="0.3"/>'
    svg = f'<svg viewBox="0 0 200 200" width="200" height="200" style="stroke-linecap:round">{frame}{body}</svg>'
    return f'<div style="text-align:center"><div>{svg}</div><small>{escape(name)}</small></div>'


def dots(points: Points, reach: float) -> str:
    """A stroke of no length for each point inside."""
    inside = [(x, y) for x, y in points if max(abs(x), abs(y)) <= reach]
    return "".join(f"M{100 + 100 * x / reach:.1f} {100 - 100 * y / reach:.1f}h0" for x, y in inside)
