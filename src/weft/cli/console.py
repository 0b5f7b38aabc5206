"""How the command line speaks: tables, warnings, a line that is drawn in place."""

from __future__ import annotations

import logging
import shlex
import sys
from typing import Any


class Stderr(logging.Handler):
    """Warnings of the library as lines on stderr, wherever that points when they come (a live display moves it)."""

    def emit(self, record: logging.LogRecord) -> None:
        print(f"weft: {record.getMessage()}", file=sys.stderr)


def show_warnings() -> None:
    log = logging.getLogger("weft")
    if not any(isinstance(handler, Stderr) for handler in log.handlers):
        log.addHandler(Stderr())


def quoted(word: str) -> str:
    """A word of a command as one would type it."""
    plain = word.replace(" ", "")
    return f'"{word}"' if word != plain and plain == shlex.quote(plain) else shlex.quote(word)


def table(rows: list[tuple[str, ...]]) -> str:
    """Rows as aligned columns."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)


def make_display() -> Any:
    """A line that is drawn in place, or None where rich is not installed."""
    try:
        from rich.live import Live
    except ImportError:
        return None
    return Live(auto_refresh=False, transient=True)


def bar(step: int, steps: int, text: str) -> Any:
    """A bar, the step and the numbers, on one line."""
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    grid = Table.grid(padding=(0, 1))
    grid.add_column(no_wrap=True, min_width=2 * len(str(steps)) + 1)
    grid.add_column(width=16)
    grid.add_column(no_wrap=True, overflow="ellipsis")
    grid.add_row(f"{step}/{steps}", ProgressBar(total=steps, completed=step, width=16), text)
    return grid
