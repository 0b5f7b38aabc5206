"""Typed, frozen settings that can be printed, changed by name, saved as JSON and rebuilt.

A setting is a keyword-only frozen dataclass deriving from `Config`. In JSON a registered class carries its registry name
as "type"; nothing else is ever looked up, so a saved recipe cannot name code to run.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import types
import typing
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from weft.core import registry
from weft.core.errors import ConfigError

C = TypeVar("C", bound="Config")
KINDS: dict[type, dict[str, Any]] = {}


@dataclass(frozen=True, kw_only=True)
class Config:
    """Base of every setting. `build()` of a part makes the object it describes."""


def kinds_of(cls: type) -> dict[str, Any]:
    """The annotated kind of every field; looking annotations up takes longer than all else that is done to a recipe."""
    if cls not in KINDS:
        KINDS[cls] = typing.get_type_hints(cls)
    return KINDS[cls]


def to_dict(value: Any) -> Any:
    """Plain JSON values, with "type" for registered parts."""
    if isinstance(value, Config):
        name = registry.name_of(type(value))
        fields = {f.name: to_dict(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"type": name, **fields} if name else fields
    if isinstance(value, dict):
        return {key: to_dict(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [to_dict(item) for item in value]
    return value


def from_dict(data: dict[str, Any], cls: type[C], place: str = "recipe") -> C:
    """Rebuild a config written by `to_dict`; a wrong name or value is a ConfigError that says where."""
    if not isinstance(data, dict):
        raise ConfigError(f"{place}: expected an object, found {data!r}")
    data = dict(data)
    if "type" in data and "type" not in {f.name for f in dataclasses.fields(cls)}:
        found = registry.part(str(data.pop("type")))
        if not issubclass(found, cls):
            raise ConfigError(f"{place}: {found.__name__} is not a {cls.__name__}")
        cls = found
    hints = kinds_of(cls)
    known = {f.name for f in dataclasses.fields(cls)}
    for name in data:
        if name not in known:
            raise ConfigError(f"{place}: no field {name!r}{registry.nearest(name, list(known))}")
    values = {name: convert(item, hints[name], f"{place}.{name}") for name, item in data.items()}
    needed = [f.name for f in dataclasses.fields(cls) if f.default is f.default_factory is dataclasses.MISSING]
    if missing := [name for name in needed if name not in values]:
        raise ConfigError(f"{place}: lacks {', '.join(missing)}")
    return cls(**values)


def convert(value: Any, kind: Any, place: str) -> Any:
    """`value`, from JSON or the command line, as the annotated kind."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any or kind is object:
        if isinstance(value, dict):
            if "type" in value:
                return from_dict(value, Config, place)
            return {key: convert(item, kind, f"{place}.{key}") for key, item in value.items()}
        return value
    if origin in (Union, types.UnionType):
        return convert_union(value, arguments, place)
    if origin is Literal:
        for choice in arguments:
            if value == choice or str(value) == str(choice):
                return choice
        raise ConfigError(f"{place}: {value!r} is not one of {', '.join(map(repr, arguments))}")
    if origin in (tuple, list):
        return convert_sequence(value, origin, arguments, place)
    if origin is dict:
        if not isinstance(value, dict):
            raise ConfigError(f"{place}: expected an object, found {value!r}")
        return {key: convert(item, arguments[1], f"{place}.{key}") for key, item in value.items()}
    if isinstance(kind, type) and issubclass(kind, Config):
        return value if isinstance(value, kind) else from_dict(value, kind, place)
    return convert_scalar(value, kind, place)


def convert_union(value: Any, kinds: tuple[Any, ...], place: str) -> Any:
    if type(None) in kinds and (value is None or value == "None"):
        return None
    problems = []
    for kind in kinds:
        if kind is not type(None):
            try:
                return convert(value, kind, place)
            except ConfigError as error:
                problems.append(str(error))
    raise ConfigError(problems[0])


def convert_sequence(value: Any, origin: type, kinds: tuple[Any, ...], place: str) -> Any:
    if isinstance(value, str):
        value = value.replace(",", " ").split()
    if not isinstance(value, (list, tuple)):
        value = [value]
    if origin is tuple and not (len(kinds) == 2 and kinds[1] is Ellipsis):
        if len(value) != len(kinds):
            raise ConfigError(f"{place}: expected {len(kinds)} values, found {len(value)}: {value!r}")
        return tuple(convert(item, kind, place) for item, kind in zip(value, kinds, strict=True))
    return origin(convert(item, kinds[0], place) for item in value)


def convert_scalar(value: Any, kind: type, place: str) -> Any:
    if kind is bool:
        words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
        if isinstance(value, bool):
            return value
        if str(value).lower() in words:
            return words[str(value).lower()]
        raise ConfigError(f"{place}: {value!r} is not true or false")
    if kind in (int, float):
        try:
            number = kind(str(value) if isinstance(value, bool) else value)
        except (TypeError, ValueError, OverflowError) as error:
            raise ConfigError(f"{place}: {value!r} is not a{'n integer' if kind is int else ' number'}") from error
        if kind is int and isinstance(value, float) and value != number:
            raise ConfigError(f"{place}: {value!r} is not an integer")
        return number
    if kind is str and isinstance(value, str):
        return value
    if isinstance(value, kind):
        return value
    raise ConfigError(f"{place}: {value!r} is not of type {kind.__name__}")


def override(config: C, changes: dict[str, Any]) -> C:
    """A copy with dotted names changed: `override(recipe, {"model.width": 512})`; kinds first, as they have settings of their own."""
    for path, value in sorted(changes.items(), key=lambda change: not change[0].endswith(".type")):
        config = change(config, path.split("."), value, path)
    return config


def change(config: Any, path: list[str], value: Any, whole: str) -> Any:
    name, rest = path[0], path[1:]
    if isinstance(config, dict):
        if name not in config:
            raise ConfigError(f"--{whole}: no entry {name!r}{registry.nearest(name, list(config))}")
        if not rest and isinstance(config[name], (Config, dict)) and not isinstance(value, (Config, dict)):
            raise ConfigError(_deeper(config[name], whole))
        return {**config, name: change(config[name], rest, value, whole) if rest else convert(value, object, f"--{whole}")}
    if not isinstance(config, Config):
        raise ConfigError(f"--{whole}: there is nothing called {name!r} below it")
    if name == "type" and not rest and (kinds := registry.kinds(type(config))):
        return other_kind(config, registry.part(convert(value, Literal[kinds], f"--{whole}")))
    fields = [f.name for f in dataclasses.fields(config)]
    if name not in fields:
        raise ConfigError(f"--{whole}: {type(config).__name__} has no field {name!r}{registry.nearest(name, fields)}")
    old = getattr(config, name)
    if rest:
        return dataclasses.replace(config, **{name: change(old, rest, value, whole)})
    if isinstance(old, (Config, dict)) and not isinstance(value, (Config, dict)):
        raise ConfigError(_deeper(old, whole))
    return dataclasses.replace(config, **{name: convert(value, kinds_of(type(config))[name], f"--{whole}")})


def other_kind(config: Config, kind: type[C]) -> C:
    """Settings of another kind, those with the same names kept."""
    shared = {f.name for f in dataclasses.fields(kind)} & {f.name for f in dataclasses.fields(config)}
    return kind(**{name: getattr(config, name) for name in shared})


def _deeper(old: Any, whole: str) -> str:
    inside = [f.name for f in dataclasses.fields(old)] if isinstance(old, Config) else list(old)
    inside = ["type", *inside] if registry.kinds(type(old)) else inside
    return f"--{whole}: name a field of it, for example --{whole}.{inside[0]}" if inside else f"--{whole}: has no fields"


def leaves(config: Any, place: str = "") -> dict[str, tuple[Any, Any]]:
    """Every setting below a config (or a mapping of configs) by its dotted name: (annotation, value); "type" where there are others."""
    if isinstance(config, dict):
        parts = {name: (object, value) for name, value in config.items()}
    else:
        hints = kinds_of(type(config))
        parts = {f.name: (hints[f.name], getattr(config, f.name)) for f in dataclasses.fields(config)}
    kinds = registry.kinds(type(config))
    found: dict[str, tuple[Any, Any]] = {f"{place}type": (Literal[kinds], registry.name_of(type(config)))} if kinds else {}
    for name, (kind, value) in parts.items():
        inner = isinstance(value, (Config, dict))
        found |= leaves(value, f"{place}{name}.") if inner else {place + name: (kind, value)}
    return found


def flag_name(word: str, known: Iterable[str]) -> tuple[str, bool]:
    """The setting a flag names, and whether it is written as its opposite: `--model.no-tied` is (model.tied, True)."""
    name = word[2:].partition("=")[0].replace("-", "_")
    stem, dot, last = name.rpartition(".")
    positive = stem + dot + last.removeprefix("no_")
    return (positive, True) if name not in known and positive in known else (name, False)


def separate(words: list[str], config: Config) -> tuple[list[str], list[list[str]]]:
    """Words that belong to no flag (all those after a bare `--` too), and each flag with its values."""
    known = leaves(config)
    free: list[str] = []
    flags: list[list[str]] = []
    room, switch = 0, False
    for position, word in enumerate(words):
        if word == "--":
            return free + words[position + 1 :], flags
        if word.startswith("--"):
            name, opposite = flag_name(word, known)
            flags.append([word])
            switch = name in known and known[name][0] is bool and not opposite and "=" not in word
            room = 0 if "=" in word else arity(known[name][0]) if name in known else len(words)
        elif room:
            flags[-1].append(word)
            room -= 1
        elif switch and word.lower() in ("true", "false"):  # `--flag` alone is enough, but one may say it
            flags[-1].append(word)
            switch = False
        else:
            free.append(word)
            switch = False
    return free, flags


def arity(kind: Any) -> int:
    """How many words a setting of this kind takes at most."""
    if get_origin(kind) in (tuple, list):
        return sys.maxsize if get_origin(kind) is list or Ellipsis in get_args(kind) else len(get_args(kind))
    return 0 if kind is bool else 1


def parse_flags(flags: list[list[str]], config: C) -> C:
    """A copy changed by flags from `separate`: `--a.b value`, `--a.b=value`, `--flag`, `--no-flag`, `--pair 1 2`."""
    known = leaves(config)
    changes: dict[str, Any] = {}
    for word, *values in flags:
        name, opposite = flag_name(word, known)
        if "=" in word:
            values = [word.partition("=")[2]]
        if not values and name in known and arity(known[name][0]) == 1:
            raise ConfigError(f"{word}: a value is missing")
        default: Any = not opposite if name in known and known[name][0] is bool else []
        changes[name] = default if not values else values[0] if len(values) == 1 else values
    return override(config, changes)


def difference(old: Any, new: Any, place: str = "") -> list[str]:
    """Lines "place: old -> new" for every leaf in which two plain dicts differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        lines = []
        for key in sorted({*old, *new}):
            lines += difference(old.get(key), new.get(key), f"{place}.{key}" if place else key)
        return lines
    return [] if old == new else [f"{place}: {json.dumps(old)} -> {json.dumps(new)}"]


def pretty(config: Config) -> str:
    return json.dumps(to_dict(config), indent=2)
