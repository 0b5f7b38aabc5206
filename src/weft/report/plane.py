"""Points of the plane, or of a line, as an SVG file of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from weft.report.scales import short, ticks

SIDE, ROOM = 560, 48
"""Pixels of the frame, and around it for the numbers."""
FAR = 0.002
"""Share of the points at each end that may lie outside the frame, so that a few strays do not shrink all others."""
BARS = 60
STYLE = (
    "svg{background:#fff;color:#1d2127}@media(prefers-color-scheme:dark){svg{background:#14161a;color:#e7e9ec}}"
    "text{font:12px system-ui,sans-serif;fill:currentColor}.grid{stroke:currentColor;stroke-opacity:.12}"
    ".frame{fill:none;stroke:currentColor;stroke-opacity:.4}"
    ".dots{stroke:#2f6fde;stroke-opacity:.55;stroke-width:3;stroke-linecap:round}.bars{fill:#2f6fde;fill-opacity:.7}"
)


def dimensions(model: Any) -> int:
    """How many numbers an example of a model with these settings has, if they are one or two and no image; else 0."""
    features = 0 if getattr(model, "image", ()) else int(getattr(model, "features", 0))
    return features if features in (1, 2) else 0


def drawn(samples: Tensor) -> str:
    """Samples (N, 2) as points, or (N, 1) by how many lie where."""
    rows = samples.float().cpu().tolist()
    return scatter([(x, y) for x, y in rows]) if samples.size(1) == 2 else histogram([value for (value,) in rows])


def scatter(points: Sequence[tuple[float, float]]) -> str:
    """A dot for each point, both axes on the same scale."""
    finite = [(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)]
    across, up = ends([x for x, _ in finite]), ends([y for _, y in finite])
    half = 0.55 * max(across[1] - across[0], up[1] - up[0])  # one scale, and a little room
    across, up = ((sum(pair) / 2 - half, sum(pair) / 2 + half) for pair in (across, up))
    inside = [(x, y) for x, y in finite if across[0] <= x <= across[1] and up[0] <= y <= up[1]]
    dots = "".join(f"M{place(x, across):.1f} {SIDE - place(y, up):.1f}h0" for x, y in inside)
    outside = len(points) - len(inside)
    said = f"{len(points):,} points{f', {outside:,} of them outside' if outside else ''}"
    return drawing(f'<path class="dots" d="{dots}"/>', across, up, said)


def histogram(values: Sequence[float]) -> str:
    """How many of the values lie in each of some equal intervals, as a share."""
    finite = [value for value in values if math.isfinite(value)]
    across = ends(finite)
    counts = [0] * BARS
    for value in finite:
        if across[0] <= value <= across[1]:
            counts[min(BARS - 1, int((value - across[0]) / (across[1] - across[0]) * BARS))] += 1
    shares = [count / max(1, len(values)) for count in counts]
    up, wide = (0.0, 1.05 * max(*shares, 1e-9)), SIDE / BARS
    bars = "".join(f"M{i * wide:.1f} {SIDE}V{SIDE - place(share, up):.1f}h{wide - 1:.1f}V{SIDE}Z" for i, share in enumerate(shares))
    return drawing(f'<path class="bars" d="{bars}"/>', across, up, f"{len(values):,} values; share of them in each of {BARS} intervals")


def ends(values: list[float]) -> tuple[float, float]:
    """Where all but the farthest values lie."""
    if not values:
        return -1.0, 1.0
    values = sorted(values)
    skipped = int(FAR * len(values))
    low, high = values[skipped], values[-1 - skipped]
    return (low, high) if high > low else (low - 1.0, high + 1.0)


def place(value: float, between: tuple[float, float]) -> float:
    return (value - between[0]) / (between[1] - between[0]) * SIDE


def drawing(body: str, across: tuple[float, float], up: tuple[float, float], said: str) -> str:
    grid, numbers = "", ""
    for x in ticks(*across, 6):
        grid += f"M{place(x, across):.1f} 0V{SIDE}"
        numbers += f'<text x="{place(x, across):.1f}" y="{SIDE + 18}" text-anchor="middle">{short(x)}</text>'
    for y in ticks(*up, 6):
        grid += f"M0 {SIDE - place(y, up):.1f}H{SIDE}"
        numbers += f'<text x="-8" y="{SIDE - place(y, up) + 4:.1f}" text-anchor="end">{short(y)}</text>'
    whole = SIDE + 2 * ROOM
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {whole} {whole}" width="{whole}" height="{whole}" role="img">'
        f"<title>{said}</title><style>{STYLE}</style>"
        f'<g transform="translate({ROOM} {ROOM / 2})"><path class="grid" d="{grid}"/>{body}'
        f'<rect class="frame" width="{SIDE}" height="{SIDE}"/>{numbers}'
        f'<text x="{SIDE / 2}" y="{SIDE + 38}" text-anchor="middle">{said}</text></g></svg>\n'
    )
