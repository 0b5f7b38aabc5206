"""The curves of a run as a figure of matplotlib, which is imported when the first one is drawn."""

from __future__ import annotations

import functools
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weft.core import registry
from weft.core.errors import ConfigError, require
from weft.core.units import title

if TYPE_CHECKING:
    from weft.runs.record import RunLog


@functools.cache
def figure_class() -> type[Any]:
    """A matplotlib figure that a notebook shows though pyplot knows nothing of it, so that nothing keeps it in memory."""
    figures: Any = require("matplotlib.figure", "plots")

    class Curves(figures.Figure):  # type: ignore[misc]
        def _repr_png_(self) -> bytes:
            stream = io.BytesIO()
            self.savefig(stream, format="png", dpi=80, bbox_inches="tight")
            return stream.getvalue()

    return Curves


def curves(run: RunLog, names: Sequence[str] = ()) -> Any:
    """A figure with a panel for each of the named numbers, or else for the loss and the recipe's measure of progress."""
    known = list(dict.fromkeys(run.names("train") + run.names("validation")))
    for name in names:
        if name not in known:
            raise ConfigError(f"{run.folder} has logged no {name!r}{registry.nearest(name, known)}")
    shown = list(names) or [name for name in dict.fromkeys(("loss", run.metric)) if name in known] or known[:1]
    figure = figure_class()(figsize=(5.5 * max(1, len(shown)), 3.4), layout="constrained")
    for column, name in enumerate(shown):
        panel(figure.add_subplot(1, len(shown), column + 1), run, name)
    return figure


def panel(axes: Any, run: RunLog, name: str) -> None:
    """Training and validation of one number."""
    for part, marker in (("train", ""), ("validation", "o")):
        points = run.points(part, name)
        if points:
            axes.plot(*zip(*points, strict=True), marker=marker, markersize=3, linewidth=1.2, label=part)
    axes.set(xlabel="step", ylabel=title(name), title=f"{run.name}: {title(name)}")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
