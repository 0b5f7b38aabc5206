"""The page of a sweep: the table of its trials, what each setting did, and the curves of the best."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from weft.core import registry
from weft.core.units import title
from weft.report.html import COPY, page
from weft.report.parts import card, rows
from weft.report.svg import Curve, chart, limits, log_ticks, short, ticks
from weft.runs.record import RunLog

SHOWN = 8
"""Trials whose curves are drawn."""
WIDE, HIGH, LEFT, BELOW = 280, 170, 54, 44
"""Units of a drawing's frame, and of the room for the numbers of its axes."""
FEW = 4
"""Values of a setting that its axis names one by one."""
DECADES = 8.0
"""Ratio from which the values of a setting are drawn on a logarithmic axis."""


@dataclass(frozen=True)
class Facts:
    name: str
    folder: str
    metric: str
    note: str
    """How far the best number can be believed."""
    command: str


def sweep_page(
    facts: Facts,
    head: Sequence[str],
    body: Sequence[Sequence[str]],
    points: Sequence[tuple[Mapping[str, Any], float]],
    runs: Sequence[tuple[str, RunLog]],
    failed: Sequence[tuple[str, str]],
) -> str:
    """body: a row for each trial, the best first. points: settings and result of the trials that can be compared."""
    entry = registry.RECIPES.get(facts.name)
    about = f"{entry.summary} · {facts.folder}" if entry else facts.folder
    parts = [
        f"<header><h1>Sweep of {escape(facts.name)}</h1><p>{escape(f'{len(body)} trials · {about}')}</p></header>",
        card(rows([tuple(map(escape, row)) for row in body], head) + f"<p>{escape(facts.note)}</p>"),
        f'<h2>The best, from the start</h2><section class="card command"><pre>{escape(facts.command)}</pre>{COPY}</section>',
        by_setting(facts.metric, points),
        curves(facts.metric, runs),
        "<h2>Failed</h2>" + card(rows([tuple(map(escape, row)) for row in failed], ("trial", "why"))) if failed else "",
    ]
    return page(f"Sweep of {facts.name}", parts)


def by_setting(metric: str, points: Sequence[tuple[Mapping[str, Any], float]]) -> str:
    """A drawing for each setting that varies: the result of each trial over the setting's value."""
    names = dict.fromkeys(name for settings, _ in points for name in settings)
    drawings = [scatter(name, metric, [(settings[name], value) for settings, value in points if name in settings]) for name in names]
    return f'<h2>By setting</h2><div class="grid">{"".join(drawings)}</div>' if any(drawings) else ""


def curves(metric: str, runs: Sequence[tuple[str, RunLog]]) -> str:
    """Validation by step of the best trials."""
    drawn = [Curve(label, run.points("validation", metric), f"c{i % 8}") for i, (label, run) in enumerate(runs)]
    return "<h2>Curves of the best</h2>" + chart(f"validation {title(metric)}", drawn, tall=True) if drawn else ""


def scatter(name: str, metric: str, points: Sequence[tuple[Any, float]]) -> str:
    """A dot for each trial, with both axes labelled; nothing for a setting of one value."""
    given = list(dict.fromkeys(plain(x) for x, _ in points))
    if len(given) < 2:
        return ""
    numeric = all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in given)
    places = {x: float(x) if numeric else float(i) for i, x in enumerate(given)}
    low, high = min(places.values()), max(places.values())
    log = numeric and low > 0 and high / low >= DECADES
    tick_labels = [(x, short(x)) for x in (log_ticks(low, high) if log else ticks(low, high, 5))]
    tick_labels = [(place, str(x)) for x, place in places.items()] if len(given) <= FEW or not numeric else tick_labels
    bottom, top = limits([y for _, y in points], "linear")

    def across(x: float) -> float:
        share = math.log(x / low) / math.log(high / low) if log else (x - low) / (high - low)
        return LEFT + (0.05 + 0.9 * share) * WIDE

    def up(y: float) -> float:
        return 8 + HIGH * (1 - (y - bottom) / (top - bottom))

    heights = ticks(bottom, top, 4)
    grid = "".join(f"M{LEFT} {up(y):.1f}h{WIDE}" for y in heights)
    text = "".join(label(across(x), HIGH + 24, said, "middle") for x, said in tick_labels)
    text += "".join(label(LEFT - 8, up(y) + 4, short(y), "end") for y in heights)
    text += label(LEFT + WIDE / 2, HIGH + BELOW, f"{name}{' (log scale)' if log else ''}", "middle")
    dots = "".join(f"M{across(places[plain(x)]):.1f} {up(y):.1f}h0" for x, y in points)
    svg = f'<svg viewBox="0 0 {LEFT + WIDE + 8} {HIGH + BELOW + 8}" style="width:100%;height:auto" role="img">'
    svg += f'<path class="grid" d="{grid}"/><path class="dots c0" d="{dots}"/>{text}</svg>'
    return card(f"<h3>validation {escape(title(metric))} by {escape(name)}</h3>{svg}")


def label(x: float, y: float, text: str, anchor: str) -> str:
    style = "font:12px system-ui,sans-serif;fill:currentColor"
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" style="{style}">{escape(text)}</text>'


def plain(value: Any) -> Any:
    """A value as one that can be looked up."""
    return " ".join(map(str, value)) if isinstance(value, (list, tuple)) else value
