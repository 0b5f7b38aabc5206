"""Small pieces of HTML: what objects show of themselves in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def pairs(title: str, rows: Iterable[tuple[str, object]]) -> str:
    """A title over a table of names and values; what is empty is left out."""
    lines = "".join(cells((name, value), align="left") for name, value in rows if str(value))
    return f"<b>{escape(title)}</b><table>{lines}</table>"


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A title over a table with a head."""
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    return f"<b>{escape(title)}</b><table><tr>{top}</tr>{''.join(cells(row) for row in rows)}</table>"


def cells(row: Sequence[object], align: str = "right") -> str:
    inside = "".join(f'<td style="text-align:{align}">{escape(str(cell))}</td>' for cell in row)
    return f"<tr>{inside}</tr>"


def text(before: str, after: str) -> str:
    """A text of which the second part was added."""
    return f'<pre style="white-space:pre-wrap"><span style="opacity:.6">{escape(before)}</span>{escape(after)}</pre>'
