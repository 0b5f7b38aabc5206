"""Prose as short documents: what Python's standard library says about itself, or the paragraphs of a text of one's own."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from weft.data.base import Problems
from weft.data.corpus import python_files, split_files
from weft.data.split import check_share
from weft.data.text import read_all, read_text

STRING = re.compile(r'("""|\'\'\')(.*?)(?<!\\)\1', re.DOTALL)
COMMENT = re.compile(r"(?:^[ \t]*#.*\n)+", re.MULTILINE)
BLANK = re.compile(r"\n\s*\n")


def docstrings(source: str) -> list[str]:
    """Triple-quoted strings that begin a line, by pattern: a parser takes thirty times as long over the standard library."""
    found = []
    for match in STRING.finditer(source):
        before = source[source.rfind("\n", 0, match.start()) + 1 : match.start()].strip()
        if before in ("", "r"):
            found.append(inspect.cleandoc(match.group(2)))
    return found


def comments(source: str) -> list[str]:
    """Runs of lines that are comments, without their marks."""
    return [re.sub(r"^[ \t]*#+[ ]?", "", match.group(), flags=re.MULTILINE) for match in COMMENT.finditer(source)]


def paragraphs(text: str) -> list[str]:
    """What blank lines separate."""
    return [block.strip() for block in BLANK.split(text) if block.strip()]


def documents(
    path: str, validation_path: str, validation: float, problems: Problems, with_comments: bool = False
) -> tuple[list[str], list[str]]:
    """Training and validation documents: of the text at `path`, or where that is empty of the standard library."""
    check_share(validation)
    share = 0.0 if validation_path else validation
    other = paragraphs(read_text(validation_path, problems)) if validation_path else []
    if path:
        text = read_text(path, problems)
        cut = int(len(text) * (1 - share))
        return paragraphs(text[:cut]), other or paragraphs(text[cut:])
    train, held = split_files(python_files(), share)
    return library(train, problems, with_comments), other or library(held, problems, with_comments)


def library(files: list[Path], problems: Problems, with_comments: bool) -> list[str]:
    """The documents of Python modules, in order; empty modules say nothing and are no problem."""
    found = []
    for source in read_all([path for path in files if path.stat().st_size], problems):
        found += docstrings(source) + (comments(source) if with_comments else [])
    return found
