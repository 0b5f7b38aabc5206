"""Questions about a paragraph as text to text: "question: … context: …" and its answer, from files in the layout of SQuAD or made up.

Batch: as of `weft.data.text.pairs`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from weft.core import random
from weft.core.errors import ConfigError, DataError
from weft.data.annotated.squad import SpanExample, read_squad
from weft.data.base import Problems
from weft.data.io.files import show
from weft.data.split import hold_out
from weft.data.text.introductions import SYLLABLES, english_name
from weft.data.text.pairs import PairsConfig

PLACES = ("kitchen", "garden", "tower", "cellar", "harbour", "library", "attic", "stable")
THINGS = ("key", "letter", "lamp", "map", "coin", "rope", "flute", "sword")
FACTS = 4
"""Sentences of a made-up paragraph."""


class Reference(str):
    """The answer that is learned, and all that are right."""

    references: tuple[str, ...]

    def __new__(cls, text: str, references: Iterable[str] = ()) -> Reference:
        made = super().__new__(cls, text)
        made.references = tuple(references) or (text,)
        return made


@dataclass(frozen=True, kw_only=True)
class QuestionAnswersConfig(PairsConfig):
    path: str = ""
    """A JSON file (plain or .gz) in the layout of SQuAD, of which questions without an answer are left out; empty takes made-up paragraphs
    about who keeps what where."""
    paragraphs: int = 3000
    """Made-up paragraphs, a question about each."""
    seed: int = 0
    """Of these."""

    def _read(self, problems: Problems) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        if not 2 <= self.paragraphs <= 100_000:
            raise ConfigError(f"--data.paragraphs must be from 2 to 100,000, not {self.paragraphs}")
        groups = self._groups(self.path, problems)
        if self.validation_path:
            same = self.validation_path == self.path
            held = groups if same else self._groups(self.validation_path, problems)
            return flat(groups), flat(held)
        train, validation = hold_out(np.zeros(len(groups), dtype=np.int64), self.validation, problems)
        return flat([groups[i] for i in train]), flat([groups[i] for i in validation])

    def _groups(self, path: str, problems: Problems) -> list[list[tuple[str, str]]]:
        """The pairs of each paragraph, so that whole paragraphs are held out."""
        if not path:
            return made_up(self.paragraphs, self.seed)
        groups = []
        for questions in read_squad(path, problems):
            answered = [pair_of(one) for one in questions if one.references]
            if len(answered) < len(questions):
                problems.add("questions without an answer, left out", questions[0].location, len(questions) - len(answered))
            groups += [answered] * bool(answered)
        if not groups:
            raise DataError(f"{show(path)}: holds no question with an answer")
        return groups


def asked(question: str, paragraph: str) -> str:
    """What a model reads."""
    return f"question: {' '.join(question.split())} context: {' '.join(paragraph.split())}"


def pair_of(one: SpanExample) -> tuple[str, str]:
    return asked(one.question, one.paragraph), Reference(one.references[0], one.references)


def flat(groups: list[list[tuple[str, str]]]) -> list[tuple[str, str]]:
    return [pair for group in groups for pair in group]


def made_up(number: int, seed: int) -> list[list[tuple[str, str]]]:
    """A few people who keep things in places, and a question about one of them; no name is used twice."""
    names = random.permute(np.arange(number * FACTS), SYLLABLES**3, random.seed_of(seed, "questions"))
    generator = np.random.Generator(np.random.PCG64(random.seed_of(seed, "facts")))
    found: list[list[tuple[str, str]]] = []
    for first in range(0, number * FACTS, FACTS):
        who = [english_name(name) for name in names[first : first + FACTS].tolist()]
        things = [THINGS[i] for i in generator.permutation(len(THINGS))[:FACTS]]
        places = [PLACES[i] for i in generator.permutation(len(PLACES))[:FACTS]]
        text = " ".join(f"{a} keeps the {b} in the {c} ." for a, b, c in zip(who, things, places, strict=True))
        about = int(generator.integers(FACTS))
        question, answer = (
            (f"who keeps the {things[about]} ?", who[about])
            if generator.random() < 0.5
            else (f"where does {who[about]} keep the {things[about]} ?", f"in the {places[about]}")
        )
        found.append([(asked(question, text), Reference(answer))])
    return found
