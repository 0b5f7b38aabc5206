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
from weft.data.io.files import locate, read_bytes, reason, show, well_formed
from weft.data.io.text import decode

LAYOUT = '{"data": [{"paragraphs": [{"context": …, "qas": [{"question": …, "answers": […]}]}]}]}'


@dataclass(frozen=True)
class SpanExample:
    """A question about a paragraph, with its answers."""

    name: str
    """Its id, unique in the file."""
    question: str
    paragraph: str
    references: tuple[str, ...]
    """The reference answers; empty where the paragraph has no answer."""
    span: tuple[int, int]
    """First and end character of the first answer that occurs in the paragraph, (0, 0) where there is none."""
    location: str


def read_squad(path: str, problems: Problems) -> list[list[SpanExample]]:
    """The questions of a file, grouped by paragraph."""
    file = locate(path)
    try:
        content = json.loads(decode(read_bytes(file), file, problems))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{show(file)}: is not JSON ({reason(error)})") from error
    if not isinstance(content, dict) or not isinstance(content.get("data"), list):
        raise DataError(f"{show(file)}: is not in the layout of SQuAD; {LAYOUT} is expected")
    ids: set[str] = set()
    groups = []
    for article, article_location in objects_of(content, "data", f"{show(file)}: ", problems):
        for paragraph, paragraph_location in objects_of(article, "paragraphs", f"{article_location}.", problems):
            groups.append(list(_questions(paragraph, paragraph_location, ids, problems)))
    groups = [group for group in groups if group]
    if not groups:
        raise DataError(f"{show(file)}: holds no usable question; {LAYOUT} is expected")
    return groups


def objects_of(owner: dict[str, Any], name: str, location: str, problems: Problems) -> Iterator[tuple[dict[str, Any], str]]:
    """The objects of a list in a JSON object, each with its location."""
    items = owner.get(name)
    if not isinstance(items, list):
        problems.add(f"entries without a list of {name}, left out", location.rstrip(".: "))
        return
    for number, item in enumerate(items):
        if isinstance(item, dict):
            yield item, f"{location}{name}[{number}]"
        else:
            problems.add(f"members of {name} that are not JSON objects, left out", f"{location}{name}[{number}]")


def _questions(paragraph: dict[str, Any], location: str, ids: set[str], problems: Problems) -> Iterator[SpanExample]:
    text = _text(paragraph, "context")
    if not text.strip():
        problems.add("paragraphs without text, left out", location)
        return
    for entry, question_location in objects_of(paragraph, "qas", f"{location}.", problems):
        question = _text(entry, "question")
        if not question.strip():
            problems.add("questions without text, left out", question_location)
        elif (answers := _answers(entry, text, question_location, problems)) is not None:
            references = tuple(answer for answer, _ in answers)
            span = next(((start, start + len(answer)) for answer, start in answers if start >= 0), (0, 0))
            yield SpanExample(_unique_id(entry, question_location, ids, problems), question, text, references, span, question_location)


def _answers(entry: dict[str, Any], paragraph: str, location: str, problems: Problems) -> list[tuple[str, int]] | None:
    """Each answer with its first character, -1 where it is not in the paragraph; None where the question is unusable."""
    if not isinstance(entry.get("answers"), list):
        problems.add("questions without a list of answers, left out", location)
        return None
    objects = list(objects_of(entry, "answers", f"{location}.", problems))
    texts = [(_text(answer, "text").strip(), answer, answer_location) for answer, answer_location in objects]
    answers = [
        (text, _start(text, answer.get("answer_start"), paragraph, answer_location, problems))
        for text, answer, answer_location in texts
        if text
    ]
    if (entry["answers"] and not answers) or (answers and all(start < 0 for _, start in answers)):
        problems.add("questions without an answer that is in the paragraph, left out", location)
        return None
    return answers


def _start(text: str, stated: Any, paragraph: str, location: str, problems: Problems) -> int:
    """The first character of an answer: as stated in the file or, failing that, of its first occurrence."""
    if isinstance(stated, int) and stated >= 0:
        start = stated + len(paragraph[stated:]) - len(paragraph[stated:].lstrip())
        if paragraph.startswith(text, start):
            return start
    occurrence = paragraph.find(text)
    action = "their first occurrence is taken" if occurrence >= 0 else "which is not in the paragraph either"
    problems.add(f"answers that do not begin at their answer_start, {action}", location)
    return occurrence


def _text(entry: dict[str, Any], name: str) -> str:
    value = entry.get(name)
    return well_formed(value) if isinstance(value, str) else ""


def _unique_id(entry: dict[str, Any], location: str, ids: set[str], problems: Problems) -> str:
    """The id of a question or, where it is missing or a duplicate, its location."""
    own = entry.get("id")
    name = well_formed(str(own)) if isinstance(own, (str, int)) else ""
    if not name or name in ids:
        problems.add("questions without a unique id, which get their location as id", location)
        name = location
    ids.add(name)
    return name
