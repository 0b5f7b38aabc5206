"""Tables of the names of everything weft can build, a table a file.

Entries are strings and are imported on use, so listing is instant. Another package registers its own through `add()`, in the
function that its entry point in the group `weft.families` names.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.metadata
from functools import cache
from typing import Any

from weft.core import renamed
from weft.core.errors import ConfigError
from weft.core.registry.benchmarks import BENCHES as BENCHES
from weft.core.registry.converters import CONVERTERS as CONVERTERS
from weft.core.registry.data import DATA as DATA
from weft.core.registry.entry import Entry as Entry
from weft.core.registry.loggers import LOGGERS as LOGGERS
from weft.core.registry.measures import MEASURES as MEASURES
from weft.core.registry.metrics import METRICS as METRICS
from weft.core.registry.models import MODELS as MODELS
from weft.core.registry.objectives import INTERCHANGEABLE as INTERCHANGEABLE
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
    "loggers": LOGGERS,
}
SINGULAR = {"studies": "study", "benches": "bench"}
CONFIG_TABLES = ("models", "data", "objectives", "optimizers")
"""Tables whose names stand as "type" in a saved recipe; a name occurs in one of them only."""


def add(table: str, name: str, target: str, year: int, summary: str) -> None:
    """Register an entry of another package."""
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


LONGEST_LIST = 60
"""Most choices that an error message lists."""
LONGEST_WORD = 200
"""Characters of a word that may be near a choice; what is longer was not mistyped, and comparing takes its time."""


def nearest(word: str, choices: list[str], listed: str = "") -> str:
    """ ", did you mean 'x'?" where a name is close, else the choices or, where there are many, the command that lists them."""
    close = difflib.get_close_matches(word, choices, n=1, cutoff=0.6) if len(word) <= LONGEST_WORD else []
    if close:
        return f"; did you mean {close[0]!r}?"
    if listed and len(choices) > LONGEST_LIST:
        return f"; see {listed}"
    return f"; choose from: {', '.join(sorted(choices))}" if choices else ""


def entry(table: str, name: str) -> Entry:
    load_families()
    if name not in TABLES[table] and (now := renamed.entry(table, name)):
        renamed.tell(f"{name!r} ({table})", repr(now))
        name = now
    if name not in TABLES[table]:
        raise ConfigError(
            f"no {SINGULAR.get(table, table.rstrip('s'))} is called {name!r}{nearest(name, [*TABLES[table]], f'weft list {table}')}"
        )
    return TABLES[table][name]


def find(table: str, name: str) -> Any:
    """Import and return the object that an entry names."""
    module, _, attribute = entry(table, name).target.partition(":")
    return getattr(importlib.import_module(module), attribute)


def config_class(name: str) -> type:
    """The config class whose registry name is `name`."""
    load_families()
    for table in CONFIG_TABLES:
        if name in TABLES[table]:
            cls: type = find(table, name)
            return cls
    if now := renamed.TYPES.get(name):
        renamed.tell(repr(name), repr(now))
        return config_class(now)
    raise ConfigError(f"no type is called {name!r}{nearest(name, [n for t in CONFIG_TABLES for n in TABLES[t]])}")


def alternatives(cls: type) -> tuple[str, ...]:
    """Names of the types that a config can be changed to, its own among them: any optimiser to any other, some objectives."""
    own = name_of(cls)
    return tuple(OPTIMIZERS) if own in OPTIMIZERS else next((group for group in INTERCHANGEABLE if own in group), ())


def name_of(cls: type) -> str | None:
    """The registry name of a config class, or None."""
    target = f"{cls.__module__}:{cls.__qualname__}"
    for table in CONFIG_TABLES:
        for name, candidate in TABLES[table].items():
            if candidate.target == target:
                return name
    return None
