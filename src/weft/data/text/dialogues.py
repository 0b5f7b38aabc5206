"""Dialogues as pairs: the turns so far, and the response; of files with a dialogue on each line, JSONL, pairs, or a few made up.

Batch: as of `weft.data.text.pairs`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from weft.core import random
from weft.core.errors import ConfigError, DataError
from weft.data.base import Problems
from weft.data.io.files import show
from weft.data.io.text import read_text
from weft.data.split import hold_out
from weft.data.text.pairs import PairsConfig

TURN = "__eou__"
"""Ends a turn, in files and in what a model reads."""
SMALL_TALK = (
    ("Hi", "Hello"),
    ("Hello , I am {name} .", "Hello {name} , how are you ?"),
    ("How are you ?", "I am fine , thank you ."),
    ("Good morning !", "Good morning , what can I do for you ?"),
    ("Where does the train to {place} leave ?", "The train to {place} leaves from platform {number} ."),
    ("A ticket to {place} , please .", "Here is your ticket to {place} . That is {number} euros ."),
    ("When does the museum in {place} open ?", "The museum in {place} opens at {number} ."),
    ("I would like {number} cups of {drink} .", "{number} cups of {drink} , of course ."),
    ("Is there {drink} left ?", "Yes , there is {drink} in the kitchen ."),
    ("I have lost my {thing} .", "Oh no ! Where did you see your {thing} last ?"),
    ("Who took the {thing} ?", "I think {name} took the {thing} ."),
    ("Do you know {name} ?", "Yes , {name} lives in {place} ."),
    ("What does {name} drink ?", "{name} always drinks {drink} ."),
    ("Thank you , {name} .", "You are welcome !"),
    ("Goodbye !", "See you soon !"),
)
"""What is said and what is answered; what the answer has and the question has not is the same for the same question."""
SLOTS = {
    "name": ["Anna", "Bruno", "Clara", "Dora", "Emil", "Flora", "Gustav", "Hanna"],
    "place": ["Paris", "Vienna", "Oslo", "Madrid", "Rome", "Prague", "Dublin", "Lima"],
    "drink": ["tea", "coffee", "milk", "water", "juice", "cocoa"],
    "thing": ["key", "ring", "book", "coat", "hat", "ticket", "phone"],
    "number": ["two", "three", "four", "five", "six", "seven", "eight", "nine"],
}


@dataclass(frozen=True, kw_only=True)
class DialoguesConfig(PairsConfig):
    chat_template: ClassVar[str] = (
        "{% for message in messages if message.role != 'system' %}"
        "{% if not loop.first %} __eou__ {% endif %}{{ message.content }}{% endfor %}"
    )
    """How messages become what a model reads."""

    path: str = ""
    """A text (plain or .gz) with a dialogue on each line and __eou__ behind each turn; JSONL with "context", a list of turns, and
    "positive_responses" or "responses", a list; or pairs as for `pairs` (.tsv, .csv). Empty takes made-up small talk."""
    turns: int = 3
    """Most turns before a response that a model reads."""
    dialogues: int = 3000
    """Made-up dialogues of one or two turns and a response."""
    seed: int = 0
    """Of these."""

    def _read(self, problems: Problems) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        if self.turns < 1 or not 2 <= self.dialogues <= 1_000_000:
            raise ConfigError(
                f"--data.turns must be at least 1 and --data.dialogues from 2 to 1,000,000, not {self.turns}, {self.dialogues}"
            )
        groups = self._dialogues(self.path, problems)
        if self.validation_path:
            held = groups if self.validation_path == self.path else self._dialogues(self.validation_path, problems)
            return joined(groups), joined(held)
        train, validation = hold_out(np.zeros(len(groups), dtype=np.int64), self.validation, problems)
        return joined([groups[i] for i in train]), joined([groups[i] for i in validation])

    def _dialogues(self, path: str, problems: Problems) -> list[list[tuple[str, str]]]:
        """The pairs of each dialogue, so that whole dialogues are held out."""
        if not path:
            return small_talk(self.dialogues, self.seed)
        if path.removesuffix(".gz").endswith((".tsv", ".csv")):
            return [[pair] for pair in super().read(path, "", problems)]
        groups, jsonl = [], path.removesuffix(".gz").endswith((".jsonl", ".json"))
        for number, line in enumerate(read_text(path, problems, (".txt", ".jsonl", ".gz")).split("\n"), 1):
            if line.strip():
                found = self._responses(line) if jsonl else self._speaker_turns(line)
                groups += [found] * bool(found)
                if not found:
                    problems.add("lines without two turns, left out", f"{show(path)}:{number}")
        if not groups:
            raise DataError(f"{show(path)}: holds no dialogue; turns that end with {TURN} are expected on each line, or JSONL with context")
        return groups

    def _speaker_turns(self, line: str) -> list[tuple[str, str]]:
        turns = [" ".join(turn.split()) for turn in line.split(TURN) if turn.strip()]
        return [(read(turns[max(0, place - self.turns) : place]), turns[place]) for place in range(1, len(turns))]

    def _responses(self, line: str) -> list[tuple[str, str]]:
        try:
            row = json.loads(line)
            context, responses = row["context"], row.get("positive_responses") or row["responses"]
            source = read([" ".join(turn.split()) for turn in context][-self.turns :])
            return [(source, " ".join(text.split())) for text in responses if text.strip() and source]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return []


def read(turns: list[str]) -> str:
    """What a model reads."""
    return f" {TURN} ".join(turns)


def joined(groups: list[list[tuple[str, str]]]) -> list[tuple[str, str]]:
    return [pair for group in groups for pair in group]


def small_talk(number: int, seed: int) -> list[list[tuple[str, str]]]:
    """Dialogues of one exchange, or of two of which the first does not matter."""
    generator = np.random.Generator(np.random.PCG64(random.seed_of(seed, "dialogues")))
    found = []
    for place in range(number):
        said = [exchange(generator, place if last else int(generator.integers(len(SMALL_TALK)))) for last in (False, True)]
        before = said[0] if generator.random() < 0.5 else ()
        found.append([(read([*before, said[1][0]]), said[1][1])])
    return found


def exchange(generator: np.random.Generator, number: int) -> tuple[str, str]:
    said, answer = SMALL_TALK[number % len(SMALL_TALK)]
    chosen = {slot: words[int(generator.integers(len(words)))] for slot, words in SLOTS.items()}
    for slot, words in SLOTS.items():  # what only the answer has is a function of what was said
        if f"{{{slot}}}" in answer and f"{{{slot}}}" not in said:
            chosen[slot] = words[random.seed_of(said.format(**chosen)) % len(words)]
    return said.format(**chosen), answer.format(**chosen)
