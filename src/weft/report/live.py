"""How work in progress is shown: a line on a terminal that is drawn anew several times a second, or a display in a notebook."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from html import escape
from typing import Any, Protocol

Points = Sequence[tuple[float, float]]
State = Callable[[], tuple[int, int, str]]
"""Gives the step, the steps and the numbers."""
WIDE, HIGH = 240, 48
"""Pixels of the curve in a notebook."""
REFRESHES = 4
"""Times a second that a display is drawn."""


class Display(Protocol):
    def start(self) -> None: ...

    def refresh(self, last: bool = False) -> None:
        """After each step, for a display that does not draw itself; the last is drawn in any case."""

    def stop(self) -> None: ...


def make_display(state: State, live: bool | None = None, curve: Points = ()) -> Display | None:
    """What there is: a notebook or a terminal; None for plain lines. live: whether standard output is taken for a terminal."""
    if live is None and (display := notebook(state, curve)):
        return display
    if not (sys.stdout.isatty() if live is None else live):
        return None
    try:
        return Terminal(state)
    except ImportError:
        return None


class Terminal:
    """A line that rich draws in place, however long a step takes."""

    def __init__(self, state: State):
        from rich.live import Live

        self.line = Live(get_renderable=lambda: bar(*state()), refresh_per_second=REFRESHES, transient=True)

    def start(self) -> None:
        self.line.start()

    def refresh(self, last: bool = False) -> None: ...

    def stop(self) -> None:
        self.line.stop()


class Notebook:
    """A bar, the numbers and a small curve of the loss, in one output of a Jupyter cell."""

    def __init__(self, display: Any, state: State, curve: Points):
        self.display, self.state, self.curve = display, state, curve
        self.handle: Any = None
        self.drawn = 0.0

    def start(self) -> None:
        self.handle = self.display({"text/plain": "", "text/html": "<pre>starting</pre>"}, raw=True, display_id=True)

    def refresh(self, last: bool = False) -> None:
        now = time.perf_counter()
        if last or now - self.drawn > 1 / REFRESHES:
            self.drawn = now
            step, steps, text = self.state()
            page = f'<progress value="{step}" max="{steps}"></progress> <code>{step}/{steps}  {escape(text)}</code><br>{drawn(self.curve)}'
            self.handle.update({"text/plain": f"step {step}/{steps}  {text}", "text/html": page}, raw=True)

    def stop(self) -> None: ...


def notebook(state: State, curve: Points) -> Notebook | None:
    """The display of the Jupyter kernel that this process is, if it is one."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if getattr(shell, "kernel", None) is None:
        return None
    from IPython.display import display

    return Notebook(display, state, curve)


def drawn(curve: Points) -> str:
    """A line through the points, as SVG; nothing for fewer than two."""
    if len(curve) < 2:
        return ""
    low, high = min(y for _, y in curve), max(y for _, y in curve)
    across, up = WIDE / (curve[-1][0] - curve[0][0] or 1.0), (HIGH - 4) / (high - low or 1.0)
    path = " ".join(f"{(x - curve[0][0]) * across:.1f},{2 + (high - y) * up:.1f}" for x, y in curve)
    line = f'<polyline points="{path}" fill="none" stroke="currentColor" stroke-width="1.5"/>'
    return f'<svg width="{WIDE}" height="{HIGH}" role="img" aria-label="loss by step">{line}</svg>'


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
