"""Short documents of prose: the docstrings of Python's standard library, or the paragraphs of the user's text."""

from __future__ import annotations

import inspect
import re
from functools import partial
from pathlib import Path

from weft.core.errors import DataError
from weft.data.base import Problems
from weft.data.io.files import show
from weft.data.io.text import read_all, read_texts
from weft.data.split import check_share, map_splits
from weft.data.text.python_source import python_files, split_files

STRING = re.compile(r'("""|\'\'\')(.*?)(?<!\\)\1', re.DOTALL)
COMMENT = re.compile(r"(?:^[ \t]*#.*\n)+", re.MULTILINE)
EXTRACTED = re.compile(r"^</?doc\b[^>\n]*>$", re.MULTILINE)
BLANK = re.compile(r"\n\s*\n")


def docstrings(source: str) -> list[str]:
    """Triple-quoted strings that begin a line, by pattern: a parser takes thirty times as long over the standard library."""
    result = []
    for match in STRING.finditer(source):
        prefix = source[source.rfind("\n", 0, match.start()) + 1 : match.start()].strip()
        if prefix in ("", "r"):
            result.append(inspect.cleandoc(match.group(2)))
    return result


def comments(source: str) -> list[str]:
    """Blocks of comment lines, without the #."""
    return [re.sub(r"^[ \t]*#+[ ]?", "", match.group(), flags=re.MULTILINE) for match in COMMENT.finditer(source)]


def paragraphs(text: str) -> list[str]:
    """The paragraphs, separated by blank lines."""
    return [block.strip() for block in BLANK.split(text) if block.strip()]


def split_documents(texts: list[str]) -> list[str]:
    """Documents: what WikiExtractor's tags enclose, else each text, or the paragraphs of a single text."""
    result = []
    for text in texts:
        if EXTRACTED.search(text):
            result += [part.strip() for part in EXTRACTED.split(text) if part.strip()]
        else:
            result += [text] if len(texts) > 1 else paragraphs(text)
    return result


def documents(
    path: str, validation_path: str, validation: float, problems: Problems, with_comments: bool = False
) -> tuple[list[str], list[str]]:
    """Training and validation documents: of the text at `path`, or where that is empty of the standard library."""
    check_share(validation)
    share = 0.0 if validation_path else validation
    if not path:
        validation_documents = split_documents(read_texts(validation_path, problems)) if validation_path else []
        train, validation_files = split_files(python_files(), share)
        return library(train, problems, with_comments), validation_documents or library(validation_files, problems, with_comments)
    texts, validation_texts = map_splits(partial(read_texts, problems=problems), path, validation_path or path)
    validation_documents = split_documents(validation_texts) if validation_path else []
    if not any(text.strip() for text in texts):
        raise DataError(f"{show(path)}: holds no text; name another file or folder with --data.path")
    if len(texts) == 1 and not EXTRACTED.search(texts[0]):
        cut = int(len(texts[0]) * (1 - share))
        return paragraphs(texts[0][:cut]), validation_documents or paragraphs(texts[0][cut:])
    result, stride = split_documents(texts), round(1 / share) if share else 0
    # every stride-th from the middle of the first stride, so that a few long documents at the beginning are sampled too
    held_out = {number for number in range(len(result)) if stride and number % stride == stride // 2}
    return [text for i, text in enumerate(result) if i not in held_out], validation_documents or [result[i] for i in sorted(held_out)]


def library(files: list[Path], problems: Problems, with_comments: bool) -> list[str]:
    """The docstrings (and comments) of Python modules, in order; empty modules are skipped."""
    result = []
    for source in read_all([path for path in files if path.stat().st_size], problems):
        result += docstrings(source) + (comments(source) if with_comments else [])
    return result
