"""`weft list [WORD…]`: what to do with what one has, or all entries of a table or about a word, with year and measured score."""

from __future__ import annotations

import importlib.resources
import os
import sys
from collections.abc import Iterable

from weft.cli.begin import have
from weft.core import registry
from weft.core.errors import ConfigError
from weft.core.registry import Entry
from weft.results import AS_IT_IS, Record, from_json

SEARCHED = ("recipes", "models", "optimizers", "studies", "benches")
USAGE = f"""usage: weft list [WORD…]

What to do with what you have. With a word, what there is about it, one line each with name, year, what it is and, where there is a
record, the measured score:
  weft list images       recipes for what you have: {", ".join(have.HAVE)}
  weft list gpt          a family, or any other word
  weft list recipes      everything in a table: {", ".join(registry.TABLES)}"""


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


def table(name: str, chosen: Iterable[str] | None = None) -> list[str]:
    """Aligned lines of one table of the registry, or of some of its names."""
    entries = registry.TABLES[name] if chosen is None else {key: registry.TABLES[name][key] for key in chosen}
    scores = {key: score(record) for key, record in records().items()} if name == "recipes" else {}
    wide = max((len(key) for key in entries), default=0)
    what = max((len(entry.summary) for entry in entries.values()), default=0)
    dated = any(entry.year for entry in entries.values())
    found = []
    for key, entry in entries.items():
        year = f"{entry.year or '':4}  " if dated else ""
        found.append(f"  {key:{wide}}  {year}{entry.summary:{what}}  {scores.get(key, '')}".rstrip())
    return found


def about(word: str) -> dict[str, list[str]]:
    """Names by table that a word is about: what one has, the beginning of a name, or a word of a name or summary."""
    kind = have.kind_of(word)
    found = {name: [key for key, entry in registry.TABLES[name].items() if names(word, key, entry)] for name in SEARCHED}
    if kind:
        begun = [key for key in registry.RECIPES if key.startswith(have.HAVE[kind].recipes)] if have.HAVE[kind].recipes else []
        found = {"recipes": begun}
    elif any(key.partition("/")[0] == word.lower() for key in registry.RECIPES):  # a family: not all that mention it
        found["recipes"] = [key for key in registry.RECIPES if key.partition("/")[0] == word.lower()]
    return {name: keys for name, keys in found.items() if keys}


def names(word: str, key: str, entry: Entry) -> bool:
    """Whether a word, or its singular, stands in the name or the summary of an entry."""
    said, wanted = f"{key} {entry.summary}".lower(), word.lower()
    return wanted in said or (len(wanted) > 4 and wanted.removesuffix("s") in said)


def heading(text: str) -> str:
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    return f"\033[1m{text}\033[0m" if colour else text


def overview() -> list[str]:
    """By what one has."""
    more = (
        ("weft start PATH", "looks at your data and proposes a recipe, its size and how long it takes"),
        ("weft list images", f"all recipes for what you have ({', '.join(have.HAVE)}), or about another word: weft list gpt"),
        ("weft list recipes", f"all {len(registry.RECIPES)}, with the scores they reached; also models, studies, benches, tasks, …"),
    )
    return [heading("I have"), *have.lines(), "", heading("more"), *(f"  {command:17}  {what}" for command, what in more)]


def main(words: list[str]) -> int:
    if any(word in ("-h", "--help") for word in words):
        print(USAGE)
        return 0
    registry.load_families()
    if not words:
        print("\n".join(overview()))
    for word in words:
        if word in registry.TABLES:
            print("\n".join([heading(word), *table(word), ""]))
            continue
        kind, found = have.kind_of(word), about(word)
        if not kind and not found:
            choices = [*registry.TABLES, *have.HAVE, *dict.fromkeys(name.partition("/")[0] for name in registry.RECIPES)]
            raise ConfigError(f"nothing is listed about {word!r}{registry.nearest(word, choices, 'weft list, or weft list recipes')}")
        if kind:
            print("\n".join([heading("I have"), *have.lines((kind,)), ""]))
        for name, keys in found.items():
            print("\n".join([heading(name), *table(name, keys), ""]))
    return 0
