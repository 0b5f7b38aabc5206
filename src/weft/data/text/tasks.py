"""Several tasks as one: every source begins with the name of its task, as T5 has it (Raffel et al., 2019, arXiv:1910.10683).

"in words: 4711" is answered by "four thousand seven hundred eleven", "sentiment: the soup was cold" by "bad".
Batch: as of `weft.data.text.pairs`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft.core import random
from weft.core.errors import ConfigError
from weft.data.base import Problems
from weft.data.split import hold_out
from weft.data.text.number_words import in_words
from weft.data.text.pairs import PairsConfig
from weft.data.text.question_answers import made_up

THINGS = ("soup", "room", "film", "waiter", "garden", "book", "music", "bread", "service", "view")
GOOD, BAD = ("warm", "lovely", "friendly", "fresh", "bright", "great"), ("cold", "awful", "rude", "stale", "gloomy", "boring")
Pair = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class TasksConfig(PairsConfig):
    path: str = ""
    """Tasks as NAME=FILE, joined by commas, each file of pairs as for `pairs`; or one file whose sources begin with the name of their task
    and a colon. Empty takes three made-up tasks: numbers in words, the sentiment of a sentence, questions about a paragraph."""
    examples: int = 3000
    """Pairs of each made-up task."""
    seed: int = 0
    """Of these."""

    def _read(self, problems: Problems) -> tuple[list[Pair], list[Pair]]:
        if not 2 <= self.examples <= 100_000:
            raise ConfigError(f"--data.examples must be from 2 to 100,000, not {self.examples}")
        if self.path:
            return super()._read(problems)
        groups = made_up_tasks(self.examples, self.seed)
        if self.validation_path:
            return [pair for group in groups for pair in group], self.read(self.validation_path, "", problems)
        train, held = list[Pair](), list[Pair]()
        for group in groups:  # the same share of every task
            first, second = hold_out(np.zeros(len(group), dtype=np.int64), self.validation, problems)
            train += [group[i] for i in first]
            held += [group[i] for i in second]
        return train, held

    def read(self, path: str, target_path: str, problems: Problems) -> list[Pair]:
        if "=" not in path:
            return super().read(path, target_path, problems)
        found = []
        for part in path.split(","):
            name, _, file = part.strip().partition("=")
            if not name.strip() or not file:
                raise ConfigError(f"--data.path: {part.strip()!r} is no NAME=FILE; tasks are given as sentiment=a.tsv,translate=b.tsv")
            found += [(with_task(name.strip(), source), target) for source, target in super().read(file, "", problems)]
        return found


def with_task(name: str, source: str) -> str:
    """What a model reads."""
    return f"{name}: {source}"


def made_up_tasks(number: int, seed: int) -> list[list[Pair]]:
    """So many pairs of each task, none twice."""
    generator = np.random.Generator(np.random.PCG64(random.seed_of(seed, "tasks")))
    numbers = random.permute(np.arange(number), 1_000_000, random.seed_of(seed, "numbers")).tolist()
    opinions: dict[str, str] = {}
    while len(opinions) < number:
        text, good = opinion(generator)
        opinions[text] = good
    return [
        [(with_task("in words", str(value)), in_words(value)) for value in numbers],
        [(with_task("sentiment", text), good) for text, good in opinions.items()],
        [pair for group in made_up(number, seed) for pair in group],
    ]


def opinion(generator: np.random.Generator) -> tuple[str, str]:
    """A sentence about two or three things that are all good or all bad, some said by the opposite and "not"."""
    good = bool(generator.integers(2))
    parts = []
    for thing in generator.permutation(len(THINGS))[: int(generator.integers(2, 4))].tolist():
        turned = generator.random() < 0.3
        words = GOOD if good != turned else BAD
        parts.append(f"the {THINGS[thing]} was {'not ' * turned}{words[int(generator.integers(len(words)))]}")
    return " and ".join(parts) + " .", "good" if good else "bad"
