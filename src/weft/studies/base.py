"""What a study gives back: a small table and one figure."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path

from weft.report.page import page
from weft.report.parts import card, rows
from weft.training.checkpoint import files


@dataclass(frozen=True)
class Finding:
    title: str
    claim: str
    """What the figure shows, in a sentence or two."""
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    figure: str
    """HTML of the figure, as report.svg draws it."""

    def write(self, path: Path) -> None:
        """One self-contained page with the figure and the table."""
        top = f"<header><h1>{escape(self.title)}</h1><p>{escape(self.claim)}</p></header>"
        body = [tuple(map(escape, row)) for row in self.rows]
        files.deliver(path, page(self.title, [top, self.figure, card(rows(body, self.head))]).encode())
