"""Prose as short documents: what Python's standard library says about itself, or the paragraphs of a text of one's own."""

from __future__ import annotations

import inspect
import re
from functools import partial
from pathlib import Path

from weft.core.errors import DataError
from weft.data.base import Problems
from weft.data.io.files import show
from weft.data.split import both, check_share
from weft.data.text.python_source import python_files, split_files
from weft.data.text.windows import read_all, read_texts

STRING = re.compile(r'("""|\'\'\')(.*?)(?<!\\)\1', re.DOTALL)
COMMENT = re.compile(r"(?:^[ \t]*#.*\n)+", re.MULTILINE)
EXTRACTED = re.compile(r"^</?doc\b[^>\n]*>$", re.MULTILINE)
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


def pieces(texts: list[str]) -> list[str]:
    """The documents of several texts: those that WikiExtractor's tags enclose, else each text, else the paragraphs of the only one."""
    found = []
    for text in texts:
        if EXTRACTED.search(text):
            found += [part.strip() for part in EXTRACTED.split(text) if part.strip()]
        else:
            found += [text] if len(texts) > 1 else paragraphs(text)
    return found


def documents(
    path: str, validation_path: str, validation: float, problems: Problems, with_comments: bool = False
) -> tuple[list[str], list[str]]:
    """Training and validation documents: of the text at `path`, or where that is empty of the standard library."""
    check_share(validation)
    share = 0.0 if validation_path else validation
    if not path:
        other = pieces(read_texts(validation_path, problems)) if validation_path else []
        train, held = split_files(python_files(), share)
        return library(train, problems, with_comments), other or library(held, problems, with_comments)
    texts, others = both(partial(read_texts, problems=problems), path, validation_path or path)
    other = pieces(others) if validation_path else []
    if not any(text.strip() for text in texts):
        raise DataError(f"{show(path)}: holds no text; name another file or folder with --data.path")
    if len(texts) == 1 and not EXTRACTED.search(texts[0]):
        cut = int(len(texts[0]) * (1 - share))
        return paragraphs(texts[0][:cut]), other or paragraphs(texts[0][cut:])
    found, every = pieces(texts), round(1 / share) if share else 0
    # every so-many-th, from the middle of the first so many: a few long documents at the front have their share too
    aside = {number for number in range(len(found)) if every and number % every == every // 2}
    return [text for i, text in enumerate(found) if i not in aside], other or [found[i] for i in sorted(aside)]


def library(files: list[Path], problems: Problems, with_comments: bool) -> list[str]:
    """The documents of Python modules, in order; empty modules say nothing and are no problem."""
    found = []
    for source in read_all([path for path in files if path.stat().st_size], problems):
        found += docstrings(source) + (comments(source) if with_comments else [])
    return found
