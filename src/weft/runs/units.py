"""What the logged numbers of a run are counted in, for the axes of its figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.core import registry
from weft.core.errors import WeftError
from weft.core.units import title

if TYPE_CHECKING:
    from weft.runs.record import RunLog

UNITS = {
    "accuracy": "share of {example}s",
    "mfu": "share of the peak",
    "per_second": "{rate}/s",
    "bits_per_dim": "bits per dimension",
    "bits_per_byte": "bits per byte",
    "kl": "nats per {example}",
    "reconstruction": "nats per {example}",
    "refused_updates": "updates",
    "rmse": "units of {target}",
    "mae": "units of {target}",
}
"""By a number's name, or the last words of it."""


def example(run: RunLog) -> str:
    """What one example of a run's data is."""
    data = run.environment.get("data", {})
    kinds = (("tags", "word"), ("image", "image"), ("columns", "row"), ("height", "image"))
    return next((word for fact, word in kinds if data.get(fact)), "example")


def unit(run: RunLog, name: str) -> str:
    """The unit of a logged number; empty where it has none, or where it is not known."""
    found = next((unit for end, unit in UNITS.items() if name == end or name.endswith("_" + end)), None)
    if found is None:
        found = loss_unit(run) if name == "loss" or name.endswith("_loss") else ""
    target = str(run.environment.get("data", {}).get("target", "the label"))
    return found.format(example=example(run), rate=run.unit, target=target)


def loss_unit(run: RunLog) -> str:
    try:
        kind = registry.find("objectives", str(run.recipe.get("objective", {}).get("type", "")))
    except WeftError:
        return ""
    return str(kind.unit).replace("per example", "per {example}")


def heading(run: RunLog, name: str) -> str:
    """A logged number as the title of its figure."""
    return title(name).replace("examples", run.unit)


def axis(run: RunLog, name: str) -> str:
    """What is written at the vertical axis: the number and its unit."""
    if name == "per_second":
        return f"rate ({unit(run, name)})"
    return f"{title(name)} ({found})" if (found := unit(run, name)) not in ("", title(name)) else title(name)
