"""Questions about paragraphs in the layout of SQuAD (Rajpurkar et al., 2016, arXiv:1606.05250; 2018, arXiv:1806.03822).

{"data": [{"paragraphs": [{"context": "…", "qas": [{"id": "…", "question": "…", "answers": [{"text": "…", "answer_start": 0}]}]}]}]}

An empty list of answers says that the paragraph has none, as in version 2.0.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from weft.core.errors import DataError
from weft.data.base import Problems
from weft.data.io.files import decode, locate, read_bytes, reason, show, well_formed

LAYOUT = '{"data": [{"paragraphs": [{"context": …, "qas": [{"question": …, "answers": […]}]}]}]}'


@dataclass(frozen=True)
class Asked:
    """A question about a paragraph."""

    name: str
    """Its id, which no other question of the file has."""
    question: str
    paragraph: str
    references: tuple[str, ...]
    """What people answered; nothing where the paragraph has no answer."""
    span: tuple[int, int]
    """The characters of the first answer that stands in the paragraph, (0, 0) where it has none."""
    place: str


def read_squad(path: str, problems: Problems) -> list[list[Asked]]:
    """The questions of a file, together with those about the same paragraph."""
    place = locate(path)
    try:
        content = json.loads(decode(read_bytes(place), place, problems))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{show(place)}: is not JSON ({reason(error)})") from error
    if not isinstance(content, dict) or not isinstance(content.get("data"), list):
        raise DataError(f"{show(place)}: is not in the layout of SQuAD; {LAYOUT} is expected")
    names: set[str] = set()
    groups = []
    for article, at in members(content, "data", f"{show(place)}: ", problems):
        for paragraph, below in members(article, "paragraphs", f"{at}.", problems):
            groups.append(list(_questions(paragraph, below, names, problems)))
    groups = [group for group in groups if group]
    if not groups:
        raise DataError(f"{show(place)}: holds no usable question; {LAYOUT} is expected")
    return groups


def members(owner: dict[str, Any], name: str, place: str, problems: Problems) -> Iterator[tuple[dict[str, Any], str]]:
    """The objects in a list that an object holds, each with its place."""
    found = owner.get(name)
    if not isinstance(found, list):
        problems.add(f"entries without a list of {name}, left out", place.rstrip(".: "))
        return
    for number, item in enumerate(found):
        if isinstance(item, dict):
            yield item, f"{place}{name}[{number}]"
        else:
            problems.add(f"members of {name} that are not JSON objects, left out", f"{place}{name}[{number}]")


def _questions(paragraph: dict[str, Any], place: str, names: set[str], problems: Problems) -> Iterator[Asked]:
    text = _text(paragraph, "context")
    if not text.strip():
        problems.add("paragraphs without text, left out", place)
        return
    for entry, at in members(paragraph, "qas", f"{place}.", problems):
        question = _text(entry, "question")
        if not question.strip():
            problems.add("questions without text, left out", at)
        elif (answers := _answers(entry, text, at, problems)) is not None:
            references = tuple(answer for answer, _ in answers)
            span = next(((start, start + len(answer)) for answer, start in answers if start >= 0), (0, 0))
            yield Asked(_name(entry, at, names, problems), question, text, references, span, at)


def _answers(entry: dict[str, Any], paragraph: str, place: str, problems: Problems) -> list[tuple[str, int]] | None:
    """Each answer with its first character, -1 where it does not stand in the paragraph; None where the question is of no use."""
    if not isinstance(entry.get("answers"), list):
        problems.add("questions without a list of answers, left out", place)
        return None
    given = list(members(entry, "answers", f"{place}.", problems))
    found = [(_text(answer, "text").strip(), answer, at) for answer, at in given]
    answers = [(text, _start(text, answer.get("answer_start"), paragraph, at, problems)) for text, answer, at in found if text]
    if (entry["answers"] and not answers) or (answers and all(start < 0 for _, start in answers)):
        problems.add("questions none of whose answers stands in the paragraph, left out", place)
        return None
    return answers


def _start(text: str, claimed: Any, paragraph: str, place: str, problems: Problems) -> int:
    """Where an answer begins: where the file says so or, failing that, where it first occurs."""
    if isinstance(claimed, int) and claimed >= 0:
        start = claimed + len(paragraph[claimed:]) - len(paragraph[claimed:].lstrip())
        if paragraph.startswith(text, start):
            return start
    found = paragraph.find(text)
    wrong = "taken where they first occur" if found >= 0 else "which is not in the paragraph either"
    problems.add(f"answers that are not where their answer_start says, {wrong}", place)
    return found


def _text(entry: dict[str, Any], name: str) -> str:
    value = entry.get(name)
    return well_formed(value) if isinstance(value, str) else ""


def _name(entry: dict[str, Any], place: str, names: set[str], problems: Problems) -> str:
    """The id of a question or, where it has none of its own, its place."""
    given = entry.get("id")
    name = well_formed(str(given)) if isinstance(given, (str, int)) else ""
    if not name or name in names:
        problems.add("questions without an id of their own, called by their place", place)
        name = place
    names.add(name)
    return name
