"""Prompts from templates: a heading, worked examples, and a question that ends where its answer begins.

A template is a plain text with {fields} of a task's records; {answer} is what the model has to give, {{ and }} are braces. Lines
of --- cut it into parts, whose texts are joined as they stand:

    one part     the question; an example is the same with its answer and an empty line
    two parts    a heading, the question
    three parts  a heading, an example, the question
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Formatter

from weft.core import registry
from weft.core.errors import ConfigError
from weft.data.io.files import read_bytes, show, unix_lines

ANSWER = "answer"
Pieces = list[tuple[str, str | None]]
LINE = re.compile(r"^---\n", re.MULTILINE)


@dataclass(frozen=True)
class Item:
    """A record of a task."""

    fields: dict[str, str]
    """What a template may name, beside the answer."""
    answers: tuple[str, ...]
    """Among what to choose; one only where there is no choice."""
    right: int = 0
    references: tuple[str, ...] = ()
    """Texts that count as right, where the model writes its answer itself."""
    group: str = field(default="", kw_only=True)
    """Items of one group are no examples for one another: they would tell the answer. Empty: those with the same fields."""

    @property
    def answer(self) -> str:
        return self.answers[self.right]

    def akin(self, other: Item) -> bool:
        return self.group == other.group if self.group else self.fields == other.fields


@dataclass(frozen=True)
class Prompt:
    """What a model is asked: everything before the answer, and what the template has after it."""

    item: Item
    text: str
    """Without the spaces at its end: tokens of most models begin with a space, so it belongs to what follows."""
    gap: str = ""
    """Those spaces."""
    after: str = ""


@dataclass(frozen=True)
class Template:
    question: str
    heading: str = ""
    example: str = ""
    """Empty: the question with its answer and an empty line."""

    @classmethod
    def parse(cls, text: str, place: str = "the template") -> Template:
        """A template from its text, whose last line break does not belong to it."""
        parts = LINE.split(text.removesuffix("\n"))
        if len(parts) > 3:
            raise ConfigError(f"{place}: has {len(parts)} parts, but at most three are accepted: heading, example, question")
        heading, example = parts[0] if len(parts) > 1 else "", parts[1] if len(parts) == 3 else ""
        template = cls(parts[-1], heading, example)
        for part in filter(None, (template.example, template.question)):
            names = [name for _, name in pieces(part, place)]
            if names.count(ANSWER) != 1:
                raise ConfigError(f"{place}: example and question must each have {{{ANSWER}}} once, not {names.count(ANSWER)} times")
        if any(name for _, name in pieces(heading, place)):
            raise ConfigError(f"{place}: a heading stands once, before all records, so it has no fields; write braces as {{{{ and }}}}")
        return template

    @classmethod
    def read(cls, path: str | Path) -> Template:
        place = Path(path).expanduser()
        if not place.is_file():
            raise ConfigError(f"--template {show(path)}: there is no such file; a template is a plain text with {{fields}}")
        try:
            return cls.parse(unix_lines(read_bytes(place).decode("utf-8-sig")), show(path))
        except UnicodeDecodeError as error:
            raise ConfigError(f"{show(path)}: is not UTF-8 text (byte {error.start}); a template is a plain text file") from error

    def check(self, item: Item, place: str = "the template") -> None:
        """Refuse fields that the records of a task do not have."""
        for _, name in (*pieces(self.example, place), *pieces(self.question, place)):
            if name and name not in (ANSWER, *item.fields):
                raise ConfigError(f"{place}: the task has no field {{{name}}}{registry.nearest(name, [*item.fields, ANSWER])}")

    def prompt(self, item: Item, examples: Sequence[Item] = ()) -> Prompt:
        """A question with worked examples in front of it."""
        shown = (fill(pieces(self.example or self.question + "\n\n"), {**one.fields, ANSWER: one.answer}) for one in examples)
        question = pieces(self.question)
        place = [name for _, name in question].index(ANSWER)
        before = fill(pieces(self.heading), {}) + "".join(shown) + fill(question[:place], item.fields) + question[place][0]
        text = before.rstrip(" ")
        return Prompt(item, text, before[len(text) :], fill(question[place + 1 :], item.fields))

    def __str__(self) -> str:
        """The text that `parse` reads."""
        parts = [self.heading, self.example, self.question] if self.example else [self.heading, self.question]
        return "---\n".join(parts) if self.heading or self.example else self.question


def pieces(text: str, place: str = "the template") -> Pieces:
    """Texts, each with the name of the field that follows it, if one does."""
    try:
        found = [(text, name, more or conversion) for text, name, more, conversion in Formatter().parse(text)]
    except ValueError as error:
        raise ConfigError(f"{place}: {error}; a field is {{name}}, and braces themselves are {{{{ and }}}}") from error
    for _, name, more in found:
        if more or (name is not None and not name.isidentifier()):
            raise ConfigError(f"{place}: {{{name}}} is not a field; one is written as its name in braces, {{{ANSWER}}} for example")
    return [(text, name) for text, name, _ in found]


def fill(found: Pieces, fields: dict[str, str]) -> str:
    return "".join(text + (fields[name] if name else "") for text, name in found)
