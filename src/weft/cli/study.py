"""`weft study NAME [FLAGS]`: an analysis that prints a small table and writes a page with one figure."""

from __future__ import annotations

import typing
from pathlib import Path

from weft import registry
from weft.cli import console, flags

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
    finding = study(settings)
    print(f"{finding.claim}\n{console.table([finding.head, *finding.rows])}")
    target = Path("studies") / f"{words[0]}.html"
    finding.write(target)
    print(f"written to {target}")
    return 0
