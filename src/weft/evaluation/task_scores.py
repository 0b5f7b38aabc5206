"""Answers to several tasks, each by itself: how many are right to the letter, F1 of words as in SQuAD, and ROUGE-L."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from weft.evaluation import squad
from weft.evaluation.answer_rows import AnswerRow, Scored, exact
from weft.evaluation.summaries import mean_rouge

NAME = re.compile(r"\s*([^:\n]{1,40}?)\s*:\s")


def task_of(source: str) -> str:
    """The name in front of a source, with hyphens for spaces."""
    match = NAME.match(source)
    return "-".join(match.group(1).split()) if match else "other"


def scores(rows: Sequence[AnswerRow], config: Any) -> Scored:
    """Every task counts the same in the mean, however many answers it has."""
    groups: dict[str, list[AnswerRow]] = {}
    for row in rows:
        groups.setdefault(task_of(row.source), []).append(row)
    found: dict[str, float] = {}
    for name, some in sorted(groups.items()):
        found[f"exact-{name}"] = exact(some)["exact"]
        found[f"f1-{name}"] = sum(squad.f1(row.said, row.references) for row in some) / len(some)
        found[f"rougeL-{name}"] = mean_rouge([(row.said, row.references) for row in some])["rougeL"]
    mean = sum(found[f"f1-{name}"] for name in groups) / max(len(groups), 1)
    return Scored({**exact(rows), "task_f1": mean, **found})
