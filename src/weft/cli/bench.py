"""`weft bench NAME [FLAGS]`: a measurement against peers; each has flags of its own."""

from __future__ import annotations

from weft.cli import console
from weft.cli.options import flags
from weft.core import registry

USAGE = """usage: weft bench NAME [FLAGS]

Measures. `weft list benches` shows what, `weft bench NAME --help` the flags of one."""


def main(words: list[str]) -> int:
    console.show_warnings()
    if not words or words[0] in flags.HELP:
        print(USAGE)
        return 0 if words else 2
    registry.find("benches", words[0])(words[1:])
    return 0
