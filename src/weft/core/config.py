"""Typed, frozen settings that can be printed, changed by name, saved as JSON and rebuilt.

Settings are keyword-only frozen dataclasses deriving from `Config`. In JSON a registered class carries its registry name
as "type"; nothing else is ever looked up, so a saved recipe cannot name code to run.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import types
import typing
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from weft.core import registry, renamed
from weft.core.errors import ConfigError

C = TypeVar("C", bound="Config")
TYPE_HINTS: dict[type, dict[str, Any]] = {}


@dataclass(frozen=True, kw_only=True)
class Config:
    """Base of all settings. `build()` of a model, data source or objective makes the object it describes."""


def type_hints_of(cls: type) -> dict[str, Any]:
    """The type hints of a config class, cached: resolving annotations takes longer than all else that is done to a recipe."""
    if cls not in TYPE_HINTS:
        TYPE_HINTS[cls] = typing.get_type_hints(cls)
    return TYPE_HINTS[cls]


def to_dict(value: Any) -> Any:
    """Plain JSON values, with "type" for registered classes."""
    if isinstance(value, Config):
        name = registry.name_of(type(value))
        fields = {f.name: to_dict(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"type": name, **fields} if name else fields
    if isinstance(value, dict):
        return {key: to_dict(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [to_dict(item) for item in value]
    return value


def from_dict(data: dict[str, Any], cls: type[C], path: str = "recipe") -> C:
    """Rebuild a config written by `to_dict`; a wrong name or value is a ConfigError with its dotted path."""
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: expected a JSON object, not {data!r}")
    data = dict(data)
    if "type" in data and "type" not in {f.name for f in dataclasses.fields(cls)}:
        registered = registry.config_class(str(data.pop("type")))
        if not issubclass(registered, cls):
            raise ConfigError(f"{path}: {registered.__name__} is not a {cls.__name__}")
        cls = registered
    hints = type_hints_of(cls)
    names = {f.name for f in dataclasses.fields(cls)}
    for name in data:
        if name not in names:
            raise ConfigError(f"{path}: no field {name!r}{registry.nearest(name, list(names))}")
    values = {name: convert(item, hints[name], f"{path}.{name}") for name, item in data.items()}
    required = [f.name for f in dataclasses.fields(cls) if f.default is f.default_factory is dataclasses.MISSING]
    if missing := [name for name in required if name not in values]:
        raise ConfigError(f"{path}: the required {', '.join(missing)} is missing")
    return cls(**values)


def convert(value: Any, annotation: Any, path: str) -> Any:
    """`value`, from JSON or the command line, converted to the annotated type."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation is Any or annotation is object:
        if isinstance(value, dict):
            if "type" in value:
                return from_dict(value, Config, path)
            return {key: convert(item, annotation, f"{path}.{key}") for key, item in value.items()}
        return value
    if origin in (Union, types.UnionType):
        return convert_union(value, arguments, path)
    if origin is Literal:
        for choice in arguments:
            if value == choice or str(value) == str(choice):
                return choice
        raise ConfigError(f"{path}: {value!r} is not one of {', '.join(map(repr, arguments))}")
    if origin in (tuple, list):
        return convert_sequence(value, origin, arguments, path)
    if origin is dict:
        if not isinstance(value, dict):
            raise ConfigError(f"{path}: expected a JSON object, not {value!r}")
        return {key: convert(item, arguments[1], f"{path}.{key}") for key, item in value.items()}
    if isinstance(annotation, type) and issubclass(annotation, Config):
        return value if isinstance(value, annotation) else from_dict(value, annotation, path)
    return convert_scalar(value, annotation, path)


def convert_union(value: Any, annotations: tuple[Any, ...], path: str) -> Any:
    if type(None) in annotations and (value is None or value == "None"):
        return None
    problems = []
    for annotation in annotations:
        if annotation is not type(None):
            try:
                return convert(value, annotation, path)
            except ConfigError as error:
                problems.append(str(error))
    raise ConfigError(problems[0])


def convert_sequence(value: Any, origin: type, annotations: tuple[Any, ...], path: str) -> Any:
    if isinstance(value, str):
        value = value.replace(",", " ").split()
    if not isinstance(value, (list, tuple)):
        value = [value]
    if origin is tuple and not (len(annotations) == 2 and annotations[1] is Ellipsis):
        if len(value) != len(annotations):
            raise ConfigError(f"{path}: expected {len(annotations)} values, not {len(value)}: {value!r}")
        return tuple(convert(item, annotation, path) for item, annotation in zip(value, annotations, strict=True))
    return origin(convert(item, annotations[0], path) for item in value)


def convert_scalar(value: Any, annotation: type, path: str) -> Any:
    if annotation is bool:
        booleans = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
        if isinstance(value, bool):
            return value
        if str(value).lower() in booleans:
            return booleans[str(value).lower()]
        raise ConfigError(f"{path}: {value!r} is not true or false")
    if annotation in (int, float):
        try:
            number = annotation(str(value) if isinstance(value, bool) else value)
        except (TypeError, ValueError, OverflowError) as error:
            raise ConfigError(f"{path}: {value!r} is not a{'n integer' if annotation is int else ' number'}") from error
        if annotation is int and isinstance(value, float) and value != number:
            raise ConfigError(f"{path}: {value!r} is not an integer")
        return number
    if annotation is str and isinstance(value, str):
        return value
    if isinstance(value, annotation):
        return value
    raise ConfigError(f"{path}: {value!r} is not of type {annotation.__name__}")


def override(config: C, changes: dict[str, Any]) -> C:
    """A copy with dotted names changed: `override(recipe, {"model.width": 512})`; types first, as each has settings of its own."""
    for path, value in sorted(changes.items(), key=lambda change: not change[0].endswith(".type")):
        config = change(config, path.split("."), value, path)
    return config


def change(config: Any, path: list[str], value: Any, flag: str) -> Any:
    name, rest = path[0], path[1:]
    if isinstance(config, dict):
        if name not in config:
            raise ConfigError(f"--{flag}: no entry {name!r}{registry.nearest(name, list(config))}")
        if not rest and isinstance(config[name], (Config, dict)) and not isinstance(value, (Config, dict)):
            raise ConfigError(_needs_a_field(config[name], flag))
        return {**config, name: change(config[name], rest, value, flag) if rest else convert(value, object, f"--{flag}")}
    if not isinstance(config, Config):
        raise ConfigError(f"--{flag}: it has no field {name!r}, as it is a single value")
    if name == "type" and not rest and (types := registry.alternatives(type(config))):
        return change_type(config, registry.config_class(convert(value, Literal[types], f"--{flag}")))
    fields = [f.name for f in dataclasses.fields(config)]
    part = part_of(config, flag.split(".")[: -len(path)])
    if name not in fields and (moved := renamed.moved(part)) and name in moved:
        off = dict.fromkeys(moved.values(), False)
        return change(change_type(config, registry.config_class(renamed.MOVED[part]), **off), path, value, flag)
    if name not in fields and (now := renamed.setting(part, name)):
        renamed.tell(f"--{flag}", "--" + ".".join([*flag.split(".")[: -len(path)], now, *rest]))
        name, value = now, value if rest else renamed.value(part, name, value)
    if name not in fields:
        raise ConfigError(f"--{flag}: {part} has no setting {name!r}{registry.nearest(name, fields)}")
    old = getattr(config, name)
    if rest:
        return dataclasses.replace(config, **{name: change(old, rest, value, flag)})
    if isinstance(old, (Config, dict)) and not isinstance(value, (Config, dict)):
        raise ConfigError(_needs_a_field(old, flag))
    return dataclasses.replace(config, **{name: convert(value, type_hints_of(type(config))[name], f"--{flag}")})


def part_of(config: Config, path: Sequence[str]) -> str:
    """The registry name of a part or, where it has none, the setting under which it stands; of a command's own settings its module."""
    return registry.name_of(type(config)) or (path[-1] if path else type(config).__module__.rpartition(".")[2])


def change_type(config: Config, new_type: type[C], **more: Any) -> C:
    """Settings of another type, which keeps the values of all fields that both have; and more that it alone has."""
    shared = {f.name for f in dataclasses.fields(new_type)} & {f.name for f in dataclasses.fields(config)}
    return new_type(**{name: getattr(config, name) for name in shared}, **more)


def _needs_a_field(old: Any, flag: str) -> str:
    names = [f.name for f in dataclasses.fields(old)] if isinstance(old, Config) else list(old)
    names = ["type", *names] if registry.alternatives(type(old)) else names
    return f"--{flag}: name a field of it, for example --{flag}.{names[0]}" if names else f"--{flag}: has no fields"


def leaves(config: Any, prefix: str = "") -> dict[str, tuple[Any, Any]]:
    """Every setting below a config (or a mapping of configs) by its dotted name: (annotation, value); "type" where it can be changed."""
    if isinstance(config, dict):
        fields = {name: (object, value) for name, value in config.items()}
    else:
        hints = type_hints_of(type(config))
        fields = {f.name: (hints[f.name], getattr(config, f.name)) for f in dataclasses.fields(config)}
    types = registry.alternatives(type(config))
    result: dict[str, tuple[Any, Any]] = {f"{prefix}type": (Literal[types], registry.name_of(type(config)))} if types else {}
    for name, (annotation, value) in fields.items():
        nested = isinstance(value, (Config, dict))
        result |= leaves(value, f"{prefix}{name}.") if nested else {prefix + name: (annotation, value)}
    return result


def with_earlier(config: Any, known: dict[str, tuple[Any, Any]], path: tuple[str, ...] = ()) -> dict[str, tuple[Any, Any]]:
    """`leaves` with those flags, too, that are still understood under the name they had."""
    place = "".join(f"{name}." for name in path)
    if isinstance(config, Config):
        part = part_of(config, path)
        earlier = renamed.SETTINGS.get(part, {})
        known = known | {place + old: (bool, False) for old in renamed.moved(part)}
        known = known | {
            place + old: known[place + new] for old, new in earlier.items() if place + old not in known and place + new in known
        }
        config = {f.name: getattr(config, f.name) for f in dataclasses.fields(config)}
    for name, inner in config.items():
        if isinstance(inner, (Config, dict)):
            known = with_earlier(inner, known, (*path, name))
    return known


def flag_name(word: str, known: Iterable[str]) -> tuple[str, bool]:
    """The setting a flag names, and whether it is negated: `--model.no-tie-embeddings` is (model.tie_embeddings, True)."""
    name = word[2:].partition("=")[0].replace("-", "_")
    stem, dot, last = name.rpartition(".")
    positive = stem + dot + last.removeprefix("no_")
    return (positive, True) if name not in known and positive in known else (name, False)


def separate(arguments: list[str], config: Config) -> tuple[list[str], list[list[str]]]:
    """Split arguments into positional ones (all those after a bare `--` too) and flags, each with its values."""
    settings = with_earlier(config, leaves(config))
    positional: list[str] = []
    flags: list[list[str]] = []
    values_left, after_boolean = 0, False
    for index, argument in enumerate(arguments):
        if argument == "--":
            return positional + arguments[index + 1 :], flags
        if argument.startswith("--"):
            name, negated = flag_name(argument, settings)
            flags.append([argument])
            after_boolean = name in settings and settings[name][0] is bool and not negated and "=" not in argument
            values_left = 0 if "=" in argument else arity(settings[name][0]) if name in settings else len(arguments)
        elif values_left:
            flags[-1].append(argument)
            values_left -= 1
        elif after_boolean and argument.lower() in ("true", "false"):  # `--flag` alone is enough, but a value may follow
            flags[-1].append(argument)
            after_boolean = False
        else:
            positional.append(argument)
            after_boolean = False
    return positional, flags


def arity(annotation: Any) -> int:
    """The largest number of arguments that a setting of this type takes."""
    if get_origin(annotation) in (tuple, list):
        return sys.maxsize if get_origin(annotation) is list or Ellipsis in get_args(annotation) else len(get_args(annotation))
    return 0 if annotation is bool else 1


def parse_flags(flags: list[list[str]], config: C) -> C:
    """A copy changed by flags from `separate`: `--a.b value`, `--a.b=value`, `--flag`, `--no-flag`, `--pair 1 2`."""
    settings = with_earlier(config, leaves(config))
    changes: dict[str, Any] = {}
    for flag, *values in flags:
        name, negated = flag_name(flag, settings)
        if "=" in flag:
            values = [flag.partition("=")[2]]
        if not values and name in settings and arity(settings[name][0]) == 1:
            raise ConfigError(f"{flag}: a value is missing")
        default: Any = not negated if name in settings and settings[name][0] is bool else []
        changes[name] = default if not values else values[0] if len(values) == 1 else values
    return override(config, changes)


def difference(old: Any, new: Any, path: str = "") -> list[str]:
    """Lines "path: old -> new" for every leaf in which two plain dicts differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        lines = []
        for key in sorted({*old, *new}):
            lines += difference(old.get(key), new.get(key), f"{path}.{key}" if path else key)
        return lines
    return [] if old == new else [f"{path}: {json.dumps(old)} -> {json.dumps(new)}"]


def flat(data: dict[str, Any], place: str = "") -> dict[str, Any]:
    """Nested settings by dotted name; a part's registry name stands under the part itself."""
    found: dict[str, Any] = {}
    for key, value in data.items():
        name = place.rstrip(".") if key == "type" else place + key
        found |= flat(value, name + ".") if isinstance(value, dict) else {name: value}
    return found


def pretty(config: Config) -> str:
    return json.dumps(to_dict(config), indent=2)
