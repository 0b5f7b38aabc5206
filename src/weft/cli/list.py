"""`weft list [models|recipes|studies|benches|…]`: one line each with what it is, its year and its measured score."""

from __future__ import annotations

import importlib.resources
import os
import sys

from weft.core import registry
from weft.core.errors import ConfigError
from weft.results import AS_IT_IS, Record, from_json

SHOWN = ("recipes", "models", "studies", "benches")
USAGE = f"""usage: weft list [{"|".join(registry.TABLES)}]

One line for everything registered: name, year, what it is, and the measured score where there is a record."""


def records() -> dict[str, Record]:
    """What every recipe reaches as it is, from the files that ship with the package."""
    found: dict[str, Record] = {}
    folder = importlib.resources.files("weft").joinpath("records")
    if not folder.is_dir():
        return found
    for file in sorted(folder.iterdir(), key=lambda f: f.name):
        if file.name.startswith(AS_IT_IS) and file.name.endswith(".json"):
            record = from_json(file.read_text(encoding="utf-8"), file.name.removesuffix(".json"))
            found[record.recipe or ""] = record
    return found


def score(record: Record) -> str:
    """`accuracy 0.978`"""
    first = record.measurements[0]
    return f"{first.metric} {first.mean:.4g}"


def table(name: str) -> list[str]:
    """Aligned lines of one table of the registry."""
    entries = registry.TABLES[name]
    scores = {key: score(record) for key, record in records().items()} if name == "recipes" else {}
    wide = max((len(key) for key in entries), default=0)
    what = max((len(entry.summary) for entry in entries.values()), default=0)
    dated = any(entry.year for entry in entries.values())
    found = []
    for key, entry in entries.items():
        year = f"{entry.year or '':4}  " if dated else ""
        found.append(f"  {key:{wide}}  {year}{entry.summary:{what}}  {scores.get(key, '')}".rstrip())
    return found


def heading(text: str) -> str:
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    return f"\033[1m{text}\033[0m" if colour else text


def main(words: list[str]) -> int:
    if any(word in ("-h", "--help") for word in words):
        print(USAGE)
        return 0
    for word in words:
        if word not in registry.TABLES:
            raise ConfigError(f"no table is called {word!r}{registry.nearest(word, list(registry.TABLES))}")
    registry.load_families()
    for name in words or [name for name in SHOWN if name in registry.TABLES]:
        print("\n".join([heading(name), *table(name), ""]))
    return 0
