"""Texts and their summaries: docstrings of Python's standard library, whose first line sums up the rest, or your own pairs.

Batch: as of `weft.data.text.pairs`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from weft.data.base import Problems
from weft.data.split import check_share
from weft.data.text.documentation import library
from weft.data.text.pairs import PairsConfig
from weft.data.text.python_source import python_files, split_files

FEWEST, MOST = 12, 4000
"""Words that a text must have, and characters of it that are read."""
FIRST = re.compile(r"\s*(?P<summary>[^\n]{12,160}?)\.?\s*\n\s*\n(?P<body>.+)", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class SummariesConfig(PairsConfig):
    path: str = ""
    """A TSV, CSV or JSONL file (plain or .gz) with a text and its summary per row; empty takes docstrings of the standard library, of which
    the first line is the summary of what follows."""

    def _read(self, problems: Problems) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        if self.path:
            return super()._read(problems)
        check_share(self.validation)
        train, held = split_files(python_files(), 0.0 if self.validation_path else self.validation)
        pairs = documented(train, problems)
        if self.validation_path:
            return pairs, self.read(self.validation_path, "", problems)
        known = set(pairs)
        return pairs, [pair for pair in documented(held, problems) if pair not in known]


def documented(files: list[Path], problems: Problems) -> list[tuple[str, str]]:
    """The bodies of docstrings with their first lines, each pair once."""
    found = dict.fromkeys(pair for text in library(files, problems, False) if (pair := pair_of(text)))
    return list(found)


def pair_of(docstring: str) -> tuple[str, str] | None:
    """What follows the first line of a docstring, and that line; None where there is not enough of either."""
    match = FIRST.fullmatch(docstring)
    if match is None or ">>>" in match["summary"]:
        return None
    body = " ".join(match["body"][:MOST].split())
    return (body, match["summary"]) if len(body.split()) >= FEWEST else None
