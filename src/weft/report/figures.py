"""Figures as files: SVG, PNG and CSV of each, in a folder or as links inside a page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from urllib.parse import quote

from weft.report.curves import Curve, Panel, thin
from weft.report.drawing import Drawing, Place
from weft.report.scales import height, limits, log_ticks, share, short, ticks
from weft.training.checkpoint import files

WIDTH, HEIGHT = 640, 400
LEFT, RIGHT, BELOW, LINE = 76, 20, 54, 18
"""Pixels around the frame of curves, and of a line of the legend."""
LETTER = 6.6
"""Pixels of a letter, roughly, for the legend's lines."""


@dataclass(frozen=True)
class Figure:
    name: str
    """Of its files."""
    drawing: Drawing
    csv: str


def write(shown: Sequence[Figure], folder: Path) -> list[Path]:
    """Three files of every figure; the PNGs need matplotlib."""
    folder.mkdir(parents=True, exist_ok=True)
    names, found = [figure.name for figure in shown], []
    for number, figure in enumerate(shown, 1):
        name = f"{figure.name}-{number}" if names.count(figure.name) > 1 else figure.name
        contents = {"svg": figure.drawing.svg().encode(), "csv": figure.csv.encode(), "png": figure.drawing.png()}
        for suffix, content in contents.items():
            found.append(folder / f"{name}.{suffix}")
            files.deliver(found[-1], content)
    return found


def links(figure: Figure) -> str:
    """Small links that save a figure from its page; a script adds the PNG, which the browser draws."""
    kinds = (("SVG", "svg", "image/svg+xml", figure.drawing.svg()), ("CSV", "csv", "text/csv", figure.csv))
    inside = "".join(
        f'<a download="{escape(figure.name)}.{suffix}" href="data:{kind};charset=utf-8,{quote(content, safe=SAFE)}">{label}</a>'
        for label, suffix, kind, content in kinds
    )
    return f'<span class="save">{inside}</span>'


def picture(figure: Figure) -> str:
    """A drawing of its own shape inside a page, with its files to save."""
    return f'<figure class="picture">{figure.drawing.svg(inside=True)}<div class="across">{links(figure)}</div></figure>'


SAFE = " /:=;,.()!*?@$-_~"
"""What a link inside a page may hold as it is."""


def name_of(title: str) -> str:
    """A title as the name of a file."""
    return re.sub(r"[^\w]+", "-", title.lower()).strip("-")[:60] or "figure"


def of_panel(panel: Panel) -> Figure:
    """Curves with their axes, units and legend."""
    rows = legend(panel)
    top = 34 + LINE * len(rows)
    drawing = Drawing(WIDTH, HEIGHT + LINE * max(0, len(rows) - 1))
    bottom, right = drawing.height - BELOW, WIDTH - RIGHT
    scale, ends = panel.scales()[0], panel.ends()
    low, high = limits(panel.values(), scale)

    def place(x: float, y: float) -> tuple[float, float]:
        return LEFT + share(x, ends) * (right - LEFT), top + height(y, low, high, scale) * (bottom - top)

    drawing.words((LEFT, 22), panel.title, colour="ink", size=14, bold=True)
    for number, row in enumerate(rows):
        write_legend(drawing, row, 42 + LINE * number)
    for y in ticks(low, high, 5) if scale == "linear" else log_ticks(low, high):
        drawing.line((LEFT, place(0, y)[1]), (right, place(0, y)[1]), colour="grid")
        drawing.words((LEFT - 8, place(0, y)[1] + 4), short(y), "end")
    for x in ticks(*ends, 5):
        drawing.line((place(x, low)[0], top), (place(x, low)[0], bottom), colour="grid")
        drawing.words((place(x, low)[0], bottom + 18), short(x), "middle")
    drawing.line((LEFT, top), (LEFT, bottom), (right, bottom), colour="soft")
    drawing.words(((LEFT + right) / 2, bottom + 40), panel.across, "middle", colour="ink", size=13)
    said = panel.axis() + (", log scale" if scale == "log" else "")
    drawing.words((20, (top + bottom) / 2), said, "middle", colour="ink", size=13, turned=True)
    if gap := panel.gap():
        drawing.line(*(place(x, y) for x, y in gap), colour="c1", opacity=0.2, closed=True)
    for curve in panel.drawn():
        draw_curve(drawing, curve, [place(x, y) for x, y in curve.line()], place)
    return Figure(name_of(panel.title), drawing, panel.csv())


def draw_curve(drawing: Drawing, curve: Curve, line: list[tuple[float, float]], place: Place) -> None:
    """One curve with what lies behind it."""
    if len(curve.band) > 1:
        outline = [(x, high) for x, _, high in curve.band] + [(x, low) for x, low, _ in reversed(curve.band)]
        drawing.line(*(place(x, y) for x, y in outline), colour=curve.style, opacity=0.2, closed=True)
    if curve.noisy:
        drawing.line(*(place(x, y) for x, y in thin(curve.points)), colour=curve.style, opacity=0.35)
    drawing.line(*line, colour=curve.style, width=2)
    if len(curve.points) <= 40 and not curve.noisy:
        for point in line:
            drawing.line(point, colour=curve.style, width=5)


def legend(panel: Panel) -> list[list[tuple[str, str]]]:
    """(label, colour) of every curve, in as many lines as they need."""
    keys = [(curve.label, curve.style) for curve in panel.drawn()] + ([("generalisation gap", "gap")] if panel.gap() else [])
    found: list[list[tuple[str, str]]] = [[]]
    room = 0.0
    for label, style in keys if len(keys) > 1 or panel.drawn()[0].band else []:
        wide = 34 + LETTER * len(label)
        if found[-1] and room + wide > WIDTH - LEFT - RIGHT:
            found.append([])
            room = 0.0
        found[-1].append((label, style))
        room += wide
    return [row for row in found if row]


def write_legend(drawing: Drawing, row: list[tuple[str, str]], y: float) -> None:
    x = float(LEFT)
    for label, style in row:
        if style == "gap":
            drawing.box((x, y - 9), 18, 10, "c1", 0.2)
        else:
            drawing.line((x, y - 4), (x + 18, y - 4), colour=style, width=2.5)
        drawing.words((x + 24, y), label)
        x += 34 + LETTER * len(label)
