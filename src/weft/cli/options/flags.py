"""Flags from typed settings, and their help."""

from __future__ import annotations

import sys
from typing import TypeVar

from weft.cli.options import help
from weft.core import config
from weft.core.config import Config
from weft.core.errors import ConfigError

C = TypeVar("C", bound=Config)
HELP = ("-h", "--help")


def parse(default: C, words: list[str], prog: str, names: str = "", description: str = "") -> tuple[C, list[str]]:
    """The settings with the flags among `words` applied, and the other words; at most as many as `names` has ("CKPT [PROMPT]")."""
    helping = any(word in HELP for word in words)
    free, flags = config.separate([word for word in words if word not in HELP], default)
    usage = f"{prog} {names}".strip()
    if not helping and not fits(len(free), names):
        raise ConfigError(f"expected {names or 'flags only'}, found {' '.join(free) or 'nothing'}; see {prog} --help")
    if not helping:
        return config.parse_flags(flags, default), free
    print(help.page(usage, description, help.settings_of(default)))
    sys.exit(0)


def fits(count: int, names: str) -> bool:
    """Whether so many words can be what the names ask for."""
    places = names.split()
    least = sum(not name.startswith("[") for name in places)
    return least <= count and (count <= len(places) or names.endswith("…]") or names.endswith("…"))
