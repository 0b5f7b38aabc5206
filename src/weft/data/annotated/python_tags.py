"""Sentences with tags that need no file: lines of Python's standard library, each token tagged with its role.

The role of a name follows from what stands around it: the same word is a function where it is defined, and elsewhere a call, an
attribute, an argument or a plain name.
"""

from __future__ import annotations

import io
import keyword
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass

from weft.data.annotated.sentences import Sentence
from weft.data.annotated.tagged import TaggedConfig
from weft.data.base import Problems
from weft.data.io.text import read_all
from weft.data.text.python_source import python_files

LONGEST = 40
"""Characters of a token, such as a string, that are kept."""
KINDS = {tokenize.OP: "operator", tokenize.NUMBER: "number", tokenize.STRING: "string"}
BEFORE = {"def": "function", "class": "class", "import": "module", "from": "module", "@": "decorator"}


@dataclass(frozen=True, kw_only=True)
class PythonTagsConfig(TaggedConfig):
    lines: int = 6000
    """Lines of Python that are read where no path is given."""

    def read(self, path: str, problems: Problems) -> list[Sentence]:
        if path:
            return super().read(path, problems)
        found: list[Sentence] = []
        files = python_files()
        for file in files[:: max(1, len(files) // 100)]:
            sentences = tagged_lines(read_all([file], problems)[0], file.stem)
            found += [sentence for _, sentence in zip(range(max(1, self.lines // 50)), sentences, strict=False)]
        return found[: self.lines]


def tagged_lines(source: str, name: str) -> Iterator[Sentence]:
    """The logical lines of a module, of two tokens and more."""
    line: list[tokenize.TokenInfo] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.NEWLINE:
                if len(line) > 1:
                    words = ["_".join(part.string.split())[:LONGEST] for part in line]
                    yield Sentence(tuple(words), tuple(roles(line)), f"{name}:{line[0].start[0]}")
                line = []
            elif token.string.strip() and token.type != tokenize.COMMENT:
                line.append(token)
    except (tokenize.TokenError, SyntaxError):
        return  # what came before is used


def roles(line: list[tokenize.TokenInfo]) -> Iterator[str]:
    words = ["", *(token.string for token in line), ""]
    depth = 0
    for position, token in enumerate(line, 1):
        before, after = words[position - 1], words[position + 1]
        depth += (token.string in tuple("([{")) - (token.string in tuple(")]}")) if token.type == tokenize.OP else 0
        if token.type != tokenize.NAME:
            yield KINDS.get(token.type, "string")
        elif keyword.iskeyword(token.string):
            yield "keyword"
        elif before in BEFORE:
            yield BEFORE[before]
        elif before == ".":
            yield "method" if after == "(" else "attribute"
        elif after == "(":
            yield "call"
        else:
            yield "argument" if depth and after == "=" else "name"
