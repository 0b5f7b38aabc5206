"""`weft study NAME [FLAGS]`: an analysis that prints a small table and writes a page with one figure."""

from __future__ import annotations

import math
import typing
from pathlib import Path
from typing import Any

from weft.cli import console
from weft.cli.options import flags
from weft.core import config, registry
from weft.core.config import Config
from weft.core.errors import ConfigError

USAGE = """usage: weft study NAME [FLAGS]

Runs an analysis and writes studies/NAME.html. `weft list studies` shows them, `weft study NAME --help` the settings of one."""


def main(words: list[str]) -> int:
    console.show_warnings()
    if not words or words[0] in flags.HELP:
        print(USAGE)
        return 0 if words else 2
    study = registry.find("studies", words[0])
    kind = typing.get_type_hints(study)["settings"]
    settings, _ = flags.parse(kind(), words[1:], f"weft study {words[0]}", "", registry.entry("studies", words[0]).summary)
    check(settings)
    finding = study(settings)
    print(f"{finding.claim}\n{console.table([finding.head, *finding.rows])}")
    target = Path("studies") / f"{words[0]}.html"
    finding.write(target)
    print(f"written to {target}")
    return 0


def check(settings: Config) -> None:
    """Refuse numbers that no study can use: what is not finite, or at or below zero where the default lies above it. A seed may be any."""
    usual = config.leaves(type(settings)())
    for name, (_, value) in config.leaves(settings).items():
        above = all(number > 0 for number in numbers(usual[name][1]))
        for number in () if name == "seed" else numbers(value):
            if not (number > 0 or (number == 0 and not above)) or number == math.inf:
                raise ConfigError(f"--{name.replace('_', '-')} must be {'above' if above else 'at least'} 0 and finite, not {number}")


def numbers(value: Any) -> list[float]:
    """The numbers among a setting's values."""
    values = value if isinstance(value, tuple) else (value,)
    return [one for one in values if isinstance(one, (int, float)) and not isinstance(one, bool)]
