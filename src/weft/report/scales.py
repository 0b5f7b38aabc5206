"""Scales of axes: their range, round numbers on them, and these as short text."""

from __future__ import annotations

import math


def share(x: float, ends: tuple[float, float]) -> float:
    """How far along the horizontal axis x lies, from 0 to 1."""
    return (x - ends[0]) / (ends[1] - ends[0] or 1.0)


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


def height(y: float, low: float, high: float, scale: str) -> float:
    """How far below the top a value lies, from 0 to 1."""
    return 1 - ((y - low) / (high - low) if scale == "linear" else math.log(y / low) / math.log(high / low))
