"""A line on a terminal that is drawn in place."""

from __future__ import annotations

from typing import Any


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
