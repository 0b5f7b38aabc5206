"""What `--help` prints: every setting with its kind, its default, and the sentence that stands under it in its class.

A recipe's settings lie beside models, whose import takes PyTorch's seconds; so `weft train RECIPE --help` reads `help.json`, which
`python docs/generate.py` writes. Each entry carries a hash of the files it is made from: where they have changed, or a recipe is of
another package, the settings themselves are asked, as those of all other commands are.
"""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import inspect
import json
import shutil
import textwrap
import types
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

from weft.core import config, registry
from weft.core.config import Config

INDEX = Path(__file__).with_name("help.json")
ROOT = Path(__file__).parent.parent.parent
COLUMN = 34
"""Where the sentences begin."""
KINDS = {int: "INT", float: "NUMBER", str: "TEXT", object: "VALUE", Any: "VALUE"}


class Setting(NamedTuple):
    name: str
    """Dotted: model.width."""
    kind: str
    """What a value looks like; empty for a switch."""
    default: str
    about: str


SENTENCES: dict[type, dict[str, str]] = {}


def sentences(cls: type) -> dict[str, str]:
    """The docstring under each field of a settings class and of those it derives from."""
    if cls in SENTENCES:
        return SENTENCES[cls]
    texts = SENTENCES[cls] = {}
    for base in reversed(cls.__mro__):
        if not issubclass(base, Config) or base is Config:
            continue
        try:
            [body] = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        except (OSError, TypeError):  # made by make_dataclass: its fields are those of its parts
            continue
        assert isinstance(body, ast.ClassDef)
        for field, under in zip(body.body, body.body[1:], strict=False):
            documented = isinstance(under, ast.Expr) and isinstance(under.value, ast.Constant)
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and documented:
                texts[field.target.id] = " ".join(str(under.value.value).split())  # type: ignore[attr-defined]
    return texts


def kind_name(kind: Any) -> str:
    """How a value of an annotation is written on the command line."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return "{" + ",".join(map(str, arguments)) + "}"
    if origin in (Union, types.UnionType):
        return "|".join("None" if part is type(None) else kind_name(part) for part in arguments)
    if origin in (tuple, list):
        parts = [kind_name(part) for part in arguments if part is not Ellipsis]
        return f"{parts[0]} …" if origin is list or Ellipsis in arguments else " ".join(parts)
    return KINDS.get(kind, "TEXT")


def shown(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return " ".join(map(str, value)) or "none"
    return "empty" if value == "" else str(value)


def settings_of(part: Any, prefix: str = "") -> list[Setting]:
    """Every setting below a config, or a mapping of configs."""
    if isinstance(part, dict):
        return [setting for name, inner in part.items() for setting in settings_of(inner, f"{prefix}{name}.")]
    if not isinstance(part, Config):
        return []
    own, others = type(part), registry.alternatives(type(part))
    found = [Setting(f"{prefix}type", kind_name(Literal[others]), str(registry.name_of(own)), "Which of them.")] if others else []
    about, kinds = sentences(own), config.type_hints_of(own)
    for field in dataclasses.fields(part):
        value = getattr(part, field.name)
        if isinstance(value, (Config, dict)):
            found += settings_of(value, f"{prefix}{field.name}.")
        else:
            kind = "" if kinds[field.name] is bool else kind_name(kinds[field.name])
            found.append(Setting(prefix + field.name, kind, shown(value), about.get(field.name, "")))
    return found


def page(usage: str, description: str, settings: Iterable[Setting], parts: dict[str, str] | None = None) -> str:
    """The whole help; `parts` says what each group of settings is."""
    width = min(shutil.get_terminal_size((100, 24)).columns, 120)
    lines = [f"usage: {usage} [SETTINGS]", ""]
    for paragraph in filter(None, inspect.cleandoc(description).split("\n\n")):
        kept = any(line.startswith(" ") or ":  " in line for line in paragraph.splitlines())
        lines += [*(paragraph.splitlines() if kept else textwrap.wrap(paragraph, width)), ""]
    group = None
    for setting in settings:
        head = setting.name.partition(".")[0] if "." in setting.name else ""
        if head != group:
            group, what = head, (parts or {}).get(head, "")
            lines += [*([""] if lines[-1] else []), f"{head}: {what}" if what else f"{head or 'settings'}:"]
        flag = f"--{setting.name.replace('_', '-')}"
        start = f"  {flag} {setting.kind}".rstrip() if setting.kind else f"  {flag} / --{negated(setting.name)}"
        text = textwrap.wrap(f"{setting.about} (default: {setting.default})".strip(), max(width - COLUMN, 30))
        if len(start) < COLUMN - 1:
            start, text = f"{start:<{COLUMN}}{text[0]}", text[1:]
        lines += [start, *(" " * COLUMN + line for line in text)]
    return "\n".join(lines)


def negated(name: str) -> str:
    stem, dot, last = name.replace("_", "-").rpartition(".")
    return f"{stem}{dot}no-{last}"


# -- the help of recipes, from an index -----------------------------------------------------------------------------------


def described(recipe: Any, function: Any) -> dict[str, Any]:
    """What the index says of a recipe."""
    modules = {function.__module__}
    parts: dict[str, str] = {}
    for name in ("data", "model", "objective", "optim", "train", "progress", "parallel"):
        part = getattr(recipe, name)
        for inner in part.values() if isinstance(part, dict) else (part,):
            modules |= {base.__module__ for base in type(inner).__mro__ if base.__module__.startswith("weft.")}
            kind = registry.name_of(type(inner))
            if kind:
                table = next(table for table in registry.CONFIG_TABLES if kind in registry.TABLES[table])
                summary = registry.TABLES[table][kind].summary
                parts[name] = f"{kind}, {summary}" if summary else kind
    settings = [list(setting) for setting in settings_of(recipe) if setting.name != "name"]
    return {"about": inspect.getdoc(function) or "", "modules": sorted(modules), "parts": parts, "settings": settings}


def make_index(recipes: dict[str, tuple[Any, Any]]) -> str:
    """The text of help.json from recipes and the functions that make them, by name; each setting stands in it once."""
    known: dict[tuple[str, ...], int] = {}
    entries = {}
    for name, (recipe, function) in recipes.items():
        entry = described(recipe, function)
        entry["settings"] = [known.setdefault(tuple(setting), len(known)) for setting in entry["settings"]]
        entries[name] = entry
    modules = sorted({module for entry in entries.values() for module in entry["modules"]})
    files = {module: digest(module) for module in modules}
    return json.dumps({"files": files, "settings": list(known), "recipes": entries}, separators=(",", ":"), ensure_ascii=False) + "\n"


def digest(module: str) -> str:
    """A hash of a module's file, without importing it."""
    path = ROOT.joinpath(*module.split(".")[1:])
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def of_recipe(name: str, extra: list[Setting]) -> str | None:
    """The help of `weft train NAME` by the index; None where the index does not know the recipe as it is now."""
    try:
        index = json.loads(INDEX.read_text(encoding="utf-8"))
        entry = index["recipes"][name]
        if any(index["files"][module] != digest(module) for module in entry["modules"]):
            return None
        settings = [*extra, *(Setting(*index["settings"][number]) for number in entry["settings"])]
    except (OSError, ValueError, KeyError, IndexError, TypeError):
        return None
    return page(f"weft train {name}", entry["about"], settings, entry["parts"])
