"""What a model knows and what it makes up: how sure it is when it is right and when it is wrong, and of people nobody wrote about."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from weft.core import random
from weft.projects.birthplace.answers import Answer, ask, score
from weft.runs.load import Loaded

NAME = re.compile(r"^Where was (.+) born\?$")
BINS = 10


@dataclass(frozen=True)
class Bin:
    """Answers of about the same confidence."""

    low: float
    high: float
    answers: int
    confidence: float
    """Mean of what the model says."""
    accuracy: float
    """Share that is right."""


@dataclass(frozen=True)
class Knowledge:
    total: int
    correct: int
    sure_right: float
    """Median confidence of right answers."""
    sure_wrong: float
    """Median confidence of wrong ones."""
    separation: float
    """Chance that a right answer is surer than a wrong one (area under the ROC curve); one half is no difference."""
    calibration_error: float
    """Mean distance of confidence and accuracy over the bins, each weighed by its answers."""
    bins: tuple[Bin, ...]
    invented: tuple[Answer, ...]
    """What it says of people who do not exist."""
    sure_invented: float
    """Median confidence of that."""
    real_places: float
    """Share of those answers that are places it was trained on."""
    by_first_name: float
    by_last_name: float
    """Chance that such an answer is the place of a trained person of the same first or last name."""
    by_chance: float
    """The same for any trained person: what a name that tells nothing would give."""

    @property
    def accuracy(self) -> float:
        return self.correct / self.total if self.total else 0.0


def examine(loaded: Loaded, answers: Sequence[Answer], trained: Sequence[tuple[str, str]], invented: int = 200, seed: int = 0) -> Knowledge:
    """Look at the answers of a model that was trained on some questions with their places."""
    total, correct = score(answers)
    right = [a.confidence for a in answers if a.place is not None and a.right]
    wrong = [a.confidence for a in answers if a.place is not None and not a.right]
    bins = confidence_bins(answers)
    people = made_up([a.question for a in answers] + [q for q, _ in trained], invented, seed)
    said = ask(loaded.model, loaded.tokenizer, [(f"Where was {name} born?", None) for name in people])
    places = {place for _, place in trained}
    return Knowledge(
        total=total,
        correct=correct,
        sure_right=statistics.median(right) if right else 0.0,
        sure_wrong=statistics.median(wrong) if wrong else 0.0,
        separation=separation(right, wrong),
        calibration_error=sum(b.answers * abs(b.confidence - b.accuracy) for b in bins) / max(total, 1),
        bins=bins,
        invented=tuple(said),
        sure_invented=statistics.median(a.confidence for a in said) if said else 0.0,
        real_places=share(a.text in places for a in said),
        by_first_name=namesakes(said, trained, 0),
        by_last_name=namesakes(said, trained, -1),
        by_chance=chance(said, trained),
    )


def confidence_bins(answers: Sequence[Answer]) -> tuple[Bin, ...]:
    """Answers whose place is known, by tenths of confidence."""
    found = []
    for number in range(BINS):
        low, high = number / BINS, (number + 1) / BINS
        inside = [a for a in answers if a.place is not None and (low <= a.confidence < high or (high == 1.0 and a.confidence >= high))]
        if inside:
            mean = statistics.fmean(a.confidence for a in inside)
            found.append(Bin(low, high, len(inside), mean, share(a.right for a in inside)))
    return tuple(found)


def separation(right: Sequence[float], wrong: Sequence[float]) -> float:
    """Share of pairs in which the right answer is the surer one; ties count half."""
    if not right or not wrong:
        return 0.5
    a, b = np.array(right)[:, None], np.array(wrong)[None, :]
    return float((a > b).mean() + 0.5 * (a == b).mean())


def made_up(questions: Sequence[str], count: int, seed: int) -> list[str]:
    """Names of nobody: the first words of one person's name and the last word of another's, where no one is called so."""
    names = list(dict.fromkeys(match.group(1) for question in questions if (match := NAME.match(question))))
    real, found = set(names), dict[str, None]()
    if len(names) < 2:
        return []
    draws = np.arange(20 * count, dtype=np.int64)
    firsts = random.permute(draws % len(names), len(names), random.seed_of(seed, "first"))
    lasts = random.permute((draws + draws // len(names) + 1) % len(names), len(names), random.seed_of(seed, "last"))
    for first, last in zip(firsts.tolist(), lasts.tolist()):
        given, family = names[first].rpartition(" ")[0], names[last].rpartition(" ")[2]
        if given and f"{given} {family}" not in real:
            found[f"{given} {family}"] = None
        if len(found) == count:
            break
    return list(found)


def namesakes(answers: Sequence[Answer], trained: Sequence[tuple[str, str]], word: int) -> float:
    """Chance that an answer is the place of a trained person whose name shares that word, where there is one."""
    places: dict[str, list[str]] = {}
    for question, place in trained:
        if match := NAME.match(question):
            places.setdefault(match.group(1).split()[word], []).append(place)
    found = [(a.text, places.get(match.group(1).split()[word])) for a in answers if (match := NAME.match(a.question))]
    return share(own.count(text) / len(own) for text, own in found if own)


def chance(answers: Sequence[Answer], trained: Sequence[tuple[str, str]]) -> float:
    """Chance that an answer is the place of a trained person taken at random."""
    if not answers or not trained:
        return 0.0
    frequency = Counter(place for _, place in trained)
    return statistics.fmean(frequency[a.text] / len(trained) for a in answers)


def share(found: Iterable[float]) -> float:
    values = list(found)
    return statistics.fmean(values) if values else 0.0
