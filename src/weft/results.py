"""The one form of a measured result, written down in results/README.md: `python -m weft.results [FILE or FOLDER …]` validates.

A record says what was measured, with what, on what and when. What was not recorded is null; what was derived afterwards
from the history of the repository is named in `reconstructed`.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import json
import math
import re
import statistics
import sys
import types
import typing
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from weft.core import registry
from weft.core.errors import DataError, WeftError
from weft.core.untrusted import parse_json, read_bytes, short

Scalar = str | bool | int | float
WIDTH = 120
AS_IT_IS = "recipe-"
"""How the names of records begin that say what a recipe reaches as it is."""
COMMIT = re.compile(r"[0-9a-f]{40}(-dirty)?")


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """What a command ran on."""

    cpu: str | None
    threads: int | None
    """Of the processor, as many as torch was given."""
    gpu: str | None
    gpus: int | None
    """How many; 0 without one."""

    def __str__(self) -> str:
        if self.gpu:
            return f"{self.gpus} x {self.gpu}" if (self.gpus or 1) > 1 else self.gpu
        threads = f", {self.threads} thread{'' if self.threads == 1 else 's'}" if self.threads else ""
        return f"{self.cpu or 'unknown hardware'}{threads}"


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """What something trivial reaches by the same metric."""

    name: str
    value: float | tuple[float, float]
    """Or the lowest and the highest of several."""
    computed: bool = False
    """Computed from the data for this record, not by its command."""

    def __str__(self) -> str:
        numbers = self.value if isinstance(self.value, tuple) else (self.value,)
        return f"{self.name} {' to '.join(f'{number:.4g}' for number in numbers)}"


@dataclass(frozen=True, kw_only=True)
class Published:
    """What others report by the same metric."""

    value: float
    source: str
    note: str | None = None
    """How they measured it, where that differs."""


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """One metric of one thing, a value per seed."""

    metric: str
    split: Literal["train", "validation", "dev", "test"] | None
    """Of the data: validation is held out from training and selects, dev is a published development set that is used to report."""
    values: tuple[float | None, ...]
    """One per seed of the record, null where a seed lacks it; one alone where there are no seeds."""
    of: dict[str, Scalar] = field(default_factory=dict)
    """Which of the things compared, such as {"batch": 32, "contender": "transformers"}."""
    unit: str | None = None
    better: Literal["higher", "lower"] | None = None
    examples: int | None = None
    """How many were measured on."""
    target: float | None = None
    """What was hoped for: at least or at most, by `better`."""
    baselines: tuple[Baseline, ...] = ()
    published: tuple[Published, ...] = ()
    note: str | None = None

    @property
    def known(self) -> list[float]:
        return [value for value in self.values if value is not None]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.known)

    @property
    def spread(self) -> float:
        """Sample standard deviation over the seeds, 0 of one."""
        return statistics.stdev(self.known) if len(self.known) > 1 else 0.0


@dataclass(frozen=True, kw_only=True)
class Record:
    """A measured result; every field but the last three must stand in the file."""

    name: str
    """Of the file, without .json."""
    benchmark: str | None
    """Of `weft bench`, or a campaign; null where a recipe was trained as it is, or with `changed` settings."""
    recipe: str | None
    changed: dict[str, Any]
    """Settings that the command changed, by dotted name."""
    command: str
    commit: str | None
    """Of the code that ran, ending in -dirty where files were changed since."""
    date: str
    hardware: Hardware
    versions: dict[str, str]
    seconds: float | None
    """Wall clock of one seed (the median), or of the whole command where there are no seeds."""
    seeds: tuple[int, ...] | None
    """Null where nothing random was repeated."""
    measurements: tuple[Measurement, ...]
    reconstructed: tuple[str, ...] = ()
    """Fields that were not recorded by the run and are known from the history of the repository."""
    note: str | None = None
    details: dict[str, Any] = field(default_factory=dict)
    """Curves, sweeps, tables: in whatever form. "rows" completes the rows of `table`."""

    @property
    def plain_recipe(self) -> bool:
        """Whether it is what a recipe reaches as it is."""
        return self.recipe is not None and self.benchmark is None and not self.changed

    def where(self) -> str:
        """Hardware, torch and date, as it stands below a table."""
        return f"{self.hardware}, torch {self.versions['torch']}, {self.date}"

    def table(self) -> list[dict[str, Any]]:
        """A row for everything compared and every seed: what it is of, "seed", each metric, and what details have to say about it."""
        rows: dict[str, dict[str, Any]] = {}

        def row(of: dict[str, Any], seed: int | None) -> dict[str, Any]:
            start = {**of, **({} if seed is None else {"seed": seed})}
            return rows.setdefault(json.dumps(start, sort_keys=True), start)

        for one in self.measurements:
            for seed, value in zip(self.seeds or (None,), one.values, strict=True):
                if value is not None:
                    row(one.of, seed)[one.metric] = value
        for more in self.details.get("rows", []):
            row(more["of"], more.get("seed")).update({key: value for key, value in more.items() if key not in ("of", "seed")})
        return list(rows.values())

    def find(self, metric: str, **of: Scalar) -> Measurement | None:
        return next((one for one in self.measurements if one.metric == metric and one.of == of), None)


SPOKEN = {
    "nats": " nats",
    "bits/dim": " bits per dimension",
    "accuracy": "right",
    "nearest neighbour": "right by the nearest neighbour",
    "classified": "classified right",
    "translated": "keep their class",
}
"""Units and metrics in a sentence."""


def compared(measurements: Iterable[Measurement], expected: str = "") -> str:
    """What was hoped for and what others have published, as one line: "at most 4 bits/dim; Dinh et al. (2017): 3.49"."""
    parts = []
    for one in measurements:
        shares = one.unit == "share"

        def number(value: float, shares: bool = shares) -> str:
            return f"{100 * value:.4g} %" if shares else f"{value:g}"

        metric = one.metric.partition("-")[0].replace("_", " ")
        unit = SPOKEN.get(one.unit or "", f" {SPOKEN.get(metric, metric)}" if shares or not one.unit else "")
        if one.target is not None:
            parts.append(f"at {'most' if one.better == 'lower' else 'least'} {number(one.target)}{unit}")
        for other in one.published:
            parts.append(f"{other.source}: {number(other.value)}{unit}{f' ({other.note})' if other.note else ''}")
    return "; ".join([*parts, *([expected] if expected else [])])


def to_json(record: Record) -> str:
    """The text of a record's file; what a measurement does not say is left out."""
    return lines(plain(record)) + "\n"


def lines(value: Any, indent: str = "") -> str:
    """JSON with whatever is short on one line."""
    short = json.dumps(value, ensure_ascii=False, allow_nan=False)
    if len(indent) + len(short) <= WIDTH or not isinstance(value, dict | list):
        return short
    more = indent + "  "
    if isinstance(value, list):
        return "[\n" + ",\n".join(more + lines(item, more) for item in value) + f"\n{indent}]"
    inner = (f"{more}{json.dumps(key, ensure_ascii=False)}: {lines(item, more)}" for key, item in value.items())
    return "{\n" + ",\n".join(inner) + f"\n{indent}}}"


def plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        fields = [(f, getattr(value, f.name)) for f in dataclasses.fields(value)]
        return {f.name: plain(found) for f, found in fields if not optional(f) or (found is not f.default and found not in ((), {}))}
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def optional(one: dataclasses.Field[Any]) -> bool:
    return not one.default is one.default_factory is dataclasses.MISSING


def read(path: str | Path) -> Record:
    """A record from its file, or a DataError that lists everything wrong with it."""
    try:
        return from_json(read_bytes(path).decode(), Path(path).stem)
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read: {short(error)}") from error


def from_json(text: str, name: str) -> Record:
    """A record from the text of the file of that name."""
    try:
        record: Record = build(Record, parse_json(text), name)
    except ValueError as error:
        raise DataError(f"{name}: is not JSON: {error}") from error
    if problems := list(check(record, name)):
        raise DataError("\n".join(f"{name}: {problem}" for problem in problems))
    return record


hints = functools.cache(typing.get_type_hints)


def build(kind: Any, value: Any, place: str) -> Any:
    """A value of JSON as the annotated kind, nothing converted but lists to tuples."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any or (origin is Literal and value in arguments):
        return value
    if origin in (types.UnionType, typing.Union):
        return build_union(arguments, value, place)
    if origin is dict and isinstance(value, dict):
        return {key: build(arguments[1], item, f"{place}.{key}") for key, item in value.items()}
    if origin is tuple and isinstance(value, list):
        kinds = arguments if arguments[-1] is not Ellipsis else arguments[:1] * len(value)
        if len(kinds) == len(value):
            return tuple(build(one, item, f"{place}[{i}]") for i, (one, item) in enumerate(zip(kinds, value, strict=True)))
    if dataclasses.is_dataclass(kind) and isinstance(value, dict):
        return build_object(kind, value, place)
    if type(value) is kind or (kind is float and type(value) is int):
        return value
    raise DataError(f"{place}: {json.dumps(value)[:60]} is not {said(kind)}")


def build_union(kinds: tuple[Any, ...], value: Any, place: str) -> Any:
    if type(None) in kinds and value is None:
        return None
    wanted = [kind for kind in kinds if kind is not type(None)]
    for kind in wanted[:-1]:
        try:
            return build(kind, value, place)
        except DataError:
            continue
    return build(wanted[-1], value, place)


def build_object(kind: Any, value: dict[str, Any], place: str) -> Any:
    fields = {f.name: f for f in dataclasses.fields(kind)}
    if unknown := [name for name in value if name not in fields]:
        raise DataError(f"{place}: no field {unknown[0]!r}{registry.nearest(unknown[0], list(fields))}")
    if missing := [name for name, f in fields.items() if not optional(f) and name not in value]:
        raise DataError(f"{place}: lacks {', '.join(missing)}; what was not recorded is null")
    return kind(**{name: build(hints(kind)[name], item, f"{place}.{name}") for name, item in value.items()})


def said(kind: Any) -> str:
    names = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
    if typing.get_origin(kind) is Literal:
        return "one of " + ", ".join(map(str, typing.get_args(kind)))
    return names.get(kind, "a list" if typing.get_origin(kind) is tuple else "an object")


def check(record: Record, name: str) -> Iterator[str]:
    """What is wrong with a record whose fields are all of their kinds."""
    if record.name != name:
        yield f"its name is {record.name!r}, that of the file {name!r}"
    try:
        datetime.date.fromisoformat(record.date)
    except ValueError:
        yield f"date {record.date!r} is not a day such as 2026-01-31"
    if record.commit is not None and not COMMIT.fullmatch(record.commit):
        yield f"commit {record.commit!r} is not 40 hexadecimal digits, with or without -dirty behind them"
    if record.recipe is not None and record.recipe not in registry.RECIPES:
        yield f"no recipe is called {record.recipe!r}{registry.nearest(record.recipe, list(registry.RECIPES), 'weft list recipes')}"
    if record.plain_recipe != name.startswith(AS_IT_IS):
        yield f"the names of what recipes reach as they are, and of nothing else, begin with {AS_IT_IS}"
    if not record.command:
        yield "command is empty"
    if lacking := {"python", "torch"} - record.versions.keys():
        yield f"versions lack {', '.join(sorted(lacking))}"
    if record.hardware.cpu is record.hardware.gpu is None:
        yield "hardware names neither cpu nor gpu"
    if not record.measurements:
        yield "it has no measurement"
    if record.seeds is not None and len(set(record.seeds)) != len(record.seeds):
        yield f"seeds {list(record.seeds)} hold one twice"
    if unknown := set(record.reconstructed) - {f.name for f in dataclasses.fields(Record)}:
        yield f"reconstructed names {', '.join(sorted(unknown))}, which a record does not have"
    seen: set[str] = set()
    for one in record.measurements:
        yield from (f"{one.metric} {one.of or ''}: {problem}" for problem in check_measurement(one, record, seen))
    yield from (f"{place} is not a finite number" for place in infinite(plain(record), "record"))


def check_measurement(one: Measurement, record: Record, seen: set[str]) -> Iterator[str]:
    key = json.dumps([one.metric, one.split, one.of], sort_keys=True)
    if key in seen:
        yield "stands twice"
    seen.add(key)
    if len(one.values) != len(record.seeds or (None,)):
        yield f"has {len(one.values)} values for {len(record.seeds or (None,))} seeds"
    if not one.known:
        yield "has no value"
    if one.target is not None and one.better is None:
        yield "has a target, but `better` does not say whether at least or at most"
    for beside in one.baselines:
        if isinstance(beside.value, tuple) and beside.value[0] > beside.value[1]:
            yield f"baseline {beside.name!r}: the lowest value comes first"
    if "seed" in one.of:
        yield "`of` names the seed, which stands in the record's seeds"


def infinite(value: Any, place: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from infinite(item, f"{place}.{key}")
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from infinite(item, f"{place}[{i}]")
    elif isinstance(value, float) and not math.isfinite(value):
        yield place


def files(paths: Iterable[str | Path]) -> list[Path]:
    """The records that these files and folders are."""
    return [file for path in map(Path, paths) for file in (sorted(path.glob("*.json")) if path.is_dir() else [path])]


def main(arguments: list[str]) -> int:
    wrong = 0
    found = files(arguments or ["results"])
    for path in found:
        try:
            read(path)
        except WeftError as error:
            wrong += 1
            print(error, file=sys.stderr)
    print(f"{len(found)} records, {wrong} of them not valid" if wrong or not found else f"{len(found)} records, all valid")
    return int(wrong > 0 or not found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
