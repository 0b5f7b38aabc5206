"""What a model said to each source and what was wanted: what every measure of written answers begins with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class AnswerRow(NamedTuple):
    source: str
    said: str
    references: tuple[str, ...]
    """Right answers, at least one."""
    task: str = ""
    """Of several that a model answers."""


class Scored(NamedTuple):
    metrics: dict[str, float]
    details: dict[str, Any] = {}
    """What else is to be known of them."""


def exact(rows: Sequence[AnswerRow]) -> dict[str, float]:
    """The share that are right to the letter: what counts where a text names a class."""
    return {"exact": sum(row.said in row.references for row in rows) / max(len(rows), 1)}
