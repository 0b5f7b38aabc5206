"""Names of everything weft can build, as tables of strings, a table a file.

Nothing is imported until it is asked for, so listing is instant. A family of another package joins through `add()`,
called by the function that its entry point in the group `weft.families` names.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.metadata
from functools import cache
from typing import Any

from weft.core.errors import ConfigError
from weft.core.registry.benchmarks import BENCHES as BENCHES
from weft.core.registry.converters import CONVERTERS as CONVERTERS
from weft.core.registry.data import DATA as DATA
from weft.core.registry.entry import Entry as Entry
from weft.core.registry.measures import MEASURES as MEASURES
from weft.core.registry.metrics import METRICS as METRICS
from weft.core.registry.models import MODELS as MODELS
from weft.core.registry.objectives import OBJECTIVES as OBJECTIVES
from weft.core.registry.optimizers import OPTIMIZERS as OPTIMIZERS
from weft.core.registry.recipes import RECIPES as RECIPES
from weft.core.registry.studies import STUDIES as STUDIES
from weft.core.registry.tasks import TASKS as TASKS
from weft.core.registry.tokenizers import TOKENIZERS as TOKENIZERS

TABLES = {
    "models": MODELS,
    "data": DATA,
    "objectives": OBJECTIVES,
    "measures": MEASURES,
    "metrics": METRICS,
    "tasks": TASKS,
    "optimizers": OPTIMIZERS,
    "tokenizers": TOKENIZERS,
    "converters": CONVERTERS,
    "recipes": RECIPES,
    "studies": STUDIES,
    "benches": BENCHES,
}
SINGULAR = {"studies": "study", "benches": "bench"}
PARTS = ("models", "data", "objectives", "optimizers")
"""Tables whose names stand as "type" in a saved recipe; a name occurs in one of them only."""


def add(table: str, name: str, target: str, year: int, summary: str) -> None:
    """Register something from outside the package."""
    if name in TABLES[table] and TABLES[table][name].target != target:
        raise ConfigError(f"{table}: the name {name!r} is taken by {TABLES[table][name].target}")
    TABLES[table][name] = Entry(target, year, summary)


@cache
def load_families() -> None:
    """Let every installed package that offers families register them (once)."""
    for point in importlib.metadata.entry_points(group="weft.families"):
        try:
            point.load()()
        except Exception as error:  # of a package that is not ours
            import logging

            logging.getLogger("weft").warning(
                "the family %s (%s) could not be loaded: %s: %s", point.name, point.value, type(error).__name__, error
            )


MANY = 60
"""Choices that are too many for a sentence."""


def nearest(word: str, choices: list[str], listed: str = "") -> str:
    """ ", did you mean 'x'?" where something is close, else the choices or, where they are many, the command by which they are listed."""
    close = difflib.get_close_matches(word, choices, n=1, cutoff=0.5)
    if close:
        return f"; did you mean {close[0]!r}?"
    if listed and len(choices) > MANY:
        return f"; see {listed}"
    return f"; choose from: {', '.join(sorted(choices))}" if choices else ""


def entry(table: str, name: str) -> Entry:
    load_families()
    if name not in TABLES[table]:
        raise ConfigError(
            f"no {SINGULAR.get(table, table.rstrip('s'))} is called {name!r}{nearest(name, [*TABLES[table]], f'weft list {table}')}"
        )
    return TABLES[table][name]


def find(table: str, name: str) -> Any:
    """The object an entry names, imported now."""
    module, _, attribute = entry(table, name).target.partition(":")
    return getattr(importlib.import_module(module), attribute)


def part(name: str) -> type:
    """The config class whose registry name is `name`."""
    load_families()
    for table in PARTS:
        if name in TABLES[table]:
            found: type = find(table, name)
            return found
    raise ConfigError(f"no part is called {name!r}{nearest(name, [n for t in PARTS for n in TABLES[t]])}")


def kinds(cls: type) -> tuple[str, ...]:
    """Names of the parts that can take the place of one, itself among them: any optimiser that of any other."""
    return tuple(OPTIMIZERS) if name_of(cls) in OPTIMIZERS else ()


def name_of(cls: type) -> str | None:
    """The registry name of a config class, or None."""
    target = f"{cls.__module__}:{cls.__qualname__}"
    for table in PARTS:
        for name, candidate in TABLES[table].items():
            if candidate.target == target:
                return name
    return None
