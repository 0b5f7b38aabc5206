"""Small pictures as inline SVG: a grid of squares, each as dark as its number is large."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

CELL = 20
"""Units of the side of a square."""


def cells(title: str, values: Sequence[Sequence[float]], framed: tuple[int, int] | None = None) -> str:
    """One figure: rows of numbers from 0 to 1 as squares from empty to full; `framed` is a (row, column) to be framed."""
    width, height = CELL * len(values[0]), CELL * len(values)
    body = "".join(
        f'<rect x="{CELL * column}" y="{CELL * row}" width="{CELL - 1}" height="{CELL - 1}" fill="currentColor" '
        f'fill-opacity="{0.06 + 0.94 * min(1.0, max(0.0, value)):.3f}"/>'
        for row, line in enumerate(values)
        for column, value in enumerate(line)
    )
    if framed:
        row, column = framed
        place = f'x="{CELL * column}" y="{CELL * row}" width="{CELL - 1}" height="{CELL - 1}"'
        body += f'<rect {place} fill="none" stroke="#d33" stroke-width="3"/>'
    svg = f'<svg viewBox="0 0 {width} {height}" style="width:100%;max-width:{width}px;height:auto" role="img">{body}</svg>'
    return f'<figure class="cells" style="display:inline-block"><figcaption><b>{escape(title)}</b></figcaption>{svg}</figure>\n'
