"""Flags from typed settings, read alike with and without tyro (config.parse_flags); tyro, where it is installed, writes the help."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TypeVar, get_args

from weft.core import config
from weft.core.config import Config
from weft.core.errors import ConfigError

C = TypeVar("C", bound=Config)
HELP = ("-h", "--help")


def load_tyro() -> ModuleType | None:
    try:
        import tyro
    except ImportError:
        return None
    return tyro


def parse(default: C, words: list[str], prog: str, names: str = "", description: str = "") -> tuple[C, list[str]]:
    """The settings with the flags among `words` applied, and the other words; at most as many as `names` has ("CKPT [PROMPT]")."""
    helping = any(word in HELP for word in words)
    free, flags = config.separate([word for word in words if word not in HELP], default)
    usage = f"{prog} {names}".strip()
    if not helping and not fits(len(free), names):
        raise ConfigError(f"expected {names or 'flags only'}, found {' '.join(free) or 'nothing'}; see {prog} --help")
    if not helping:
        return config.parse_flags(flags, default), free
    if tyro := load_tyro():
        about = "\n\n".join([description, *kinds_help(default)])
        tyro.cli(type(default), default=default, prog=usage, args=["--help"], description=about)
    print(plain_help(default, usage, description))
    sys.exit(0)


def fits(count: int, names: str) -> bool:
    """Whether so many words can be what the names ask for."""
    places = names.split()
    least = sum(not name.startswith("[") for name in places)
    return least <= count and (count <= len(places) or names.endswith("…]") or names.endswith("…"))


def kinds_help(settings: Config) -> list[str]:
    """A line for each flag that chooses the kind of a part; tyro knows only the settings of the one that is there."""
    chosen = {name: setting for name, setting in config.leaves(settings).items() if name.endswith(".type")}
    return [f"--{name} {{{','.join(get_args(kind))}}} (default: {value})" for name, (kind, value) in chosen.items()]


def plain_help(settings: Config, usage: str, description: str) -> str:
    """Every flag with its default; what it means stands in the help of tyro."""
    lines = []
    for name, (kind, value) in config.leaves(settings).items():
        shown = " ".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)
        lines.append(f"  --{name.replace('_', '-')}{'' if kind is bool else ' ' + name.rpartition('.')[2].upper()}  (default: {shown})")
    note = "Install tyro to see a sentence for each."
    return "\n".join([f"usage: {usage} [FLAGS]", "", *([description, ""] if description else []), *lines, "", note])
