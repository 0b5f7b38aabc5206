"""A drawing of lines, areas and words in pixels, written as an SVG file, as SVG inside a page, or as a PNG by matplotlib.

Colours have the names of page.css, so that a drawing inside a page follows its dark and light; in files they are those of paper.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, Literal

from weft.core.errors import require

PAPER = {
    "paper": "#ffffff", "ink": "#1d2127", "soft": "#5a6472", "grid": "#e2e4e0",
    "c0": "#2f6fde", "c1": "#e0662b", "c2": "#2a9d6e", "c3": "#a04bc4", "c4": "#c2971b", "c5": "#d1457b", "c6": "#2596a8", "c7": "#7b6a58",
}  # fmt: skip
"""Colours in files."""
DPI = 200
"""Of PNG files; a pixel of a drawing is a hundredth of an inch."""
Where = tuple[float, float]
Place = Callable[[float, float], Where]
"""From numbers on the axes to pixels."""
Anchor = Literal["start", "middle", "end"]


@dataclass(frozen=True)
class Line:
    """A line through points, or where it is closed the area inside; a dot of this width where there is one point."""

    points: Sequence[Where]
    colour: str
    width: float = 1.0
    opacity: float = 1.0
    closed: bool = False
    dashed: bool = False


@dataclass(frozen=True)
class Words:
    """Words on one line; upright where they are turned by a quarter, read from below."""

    at: Where
    text: str
    anchor: Anchor = "start"
    colour: str = "soft"
    size: int = 12
    bold: bool = False
    turned: bool = False


@dataclass
class Drawing:
    width: int
    height: int
    parts: list[Line | Words] = field(default_factory=list)

    def line(self, *points: Where, colour: str, **settings: Any) -> None:
        self.parts.append(Line(points, colour, **settings))

    def box(self, at: Where, width: float, height: float, colour: str, opacity: float = 1.0) -> None:
        x, y = at
        self.line((x, y), (x + width, y), (x + width, y + height), (x, y + height), colour=colour, opacity=opacity, closed=True)

    def words(self, at: Where, text: str, anchor: Anchor = "start", **settings: Any) -> None:
        self.parts.append(Words(at, text, anchor, **settings))

    def svg(self, inside: bool = False) -> str:
        """The drawing as a file of its own; inside: as part of a page."""
        colour = (lambda name: f"var(--{name})") if inside else PAPER.__getitem__
        body = "".join(line_svg(part, colour) if isinstance(part, Line) else words_svg(part, colour) for part in self.parts)
        size = f'viewBox="0 0 {self.width} {self.height}"'
        if inside:
            return f'<svg {size} style="width:100%;max-width:{self.width}px;height:auto" role="img">{body}</svg>'
        paper = f'<rect width="{self.width}" height="{self.height}" fill="{PAPER["paper"]}"/>'
        start = f'<svg xmlns="http://www.w3.org/2000/svg" {size} width="{self.width}" height="{self.height}"'
        return f'{start} font-family="Helvetica, Arial, sans-serif">{paper}{body}</svg>\n'

    def png(self) -> bytes:
        """The drawing as pixels, by matplotlib."""
        figure = require("matplotlib.figure", "plots").Figure(figsize=(self.width / 100, self.height / 100), dpi=DPI)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(0, self.width), ylim=(self.height, 0))
        axes.axis("off")
        for part in self.parts:
            if isinstance(part, Line):
                line_pixels(axes, part)
            else:
                words_pixels(axes, part)
        stream = io.BytesIO()
        figure.savefig(stream, format="png", dpi=DPI, facecolor=PAPER["paper"])
        return stream.getvalue()


def line_svg(line: Line, colour: Any) -> str:
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in line.points)
    faint = f";opacity:{line.opacity:.3g}" if line.opacity < 1 else ""
    if line.closed:
        return f'<path d="{path}Z" style="fill:{colour(line.colour)};stroke:none{faint}"/>'
    stroke = f"fill:none;stroke:{colour(line.colour)};stroke-width:{line.width:g};stroke-linejoin:round;stroke-linecap:round"
    dashed = ";stroke-dasharray:5 5" if line.dashed else ""
    return f'<path d="{path}{"h0.01" if len(line.points) == 1 else ""}" style="{stroke}{dashed}{faint}"/>'


def words_svg(words: Words, colour: Any) -> str:
    x, y = words.at
    turned = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if words.turned else ""
    style = f"font-size:{words.size}px;fill:{colour(words.colour)}{';font-weight:600' if words.bold else ''}"
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{words.anchor}"{turned} style="{style}">{escape(words.text)}</text>'


def line_pixels(axes: Any, line: Line) -> None:
    across, down = zip(*line.points, strict=True)
    colour = PAPER[line.colour]
    if line.closed:
        axes.fill(across, down, color=colour, alpha=line.opacity, linewidth=0)
        return
    dot = {"marker": "o", "markersize": 0.72 * line.width, "markeredgewidth": 0} if len(line.points) == 1 else {}
    style = "--" if line.dashed else "-"
    axes.plot(across, down, style, color=colour, alpha=line.opacity, linewidth=0.72 * line.width, solid_capstyle="round", **dot)


def words_pixels(axes: Any, words: Words) -> None:
    align = {"start": "left", "middle": "center", "end": "right"}[words.anchor]
    turned = {"rotation": 90, "rotation_mode": "anchor"} if words.turned else {}
    text = words.text.replace("$", r"\$")  # no formula
    weight = "bold" if words.bold else "normal"
    axes.text(*words.at, text, size=0.72 * words.size, color=PAPER[words.colour], ha=align, va="baseline", weight=weight, **turned)
