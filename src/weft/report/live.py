"""A line on a terminal that is drawn in place, anew several times a second however long a step takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

REFRESHES = 4
"""Times a second that the line is drawn."""


def make_display(text: Callable[[], tuple[int, int, str]]) -> Any:
    """A line that is drawn in place from `text`, which gives step, steps and the numbers; None where rich is not installed."""
    try:
        from rich.live import Live
    except ImportError:
        return None
    return Live(get_renderable=lambda: bar(*text()), refresh_per_second=REFRESHES, transient=True)


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
