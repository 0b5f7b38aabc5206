"""Exact match and F1 of written answers by SQuAD's rules, beside those of the sentence that shares most words with the question."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from weft.evaluation import squad
from weft.evaluation.answer_rows import AnswerRow, Scored

ASKED = re.compile(r"question: (?P<question>.*?) context: (?P<context>.*)", re.DOTALL)
SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[\"'A-Z(])")


def scores(rows: Sequence[AnswerRow], config: Any) -> Scored:
    number = max(len(rows), 1)
    nearest = [best_sentence(row.source) for row in rows]
    return Scored(
        {
            "exact_match": sum(squad.exact(row.said, row.references) for row in rows) / number,
            "f1": sum(squad.f1(row.said, row.references) for row in rows) / number,
            "best_sentence_f1": sum(squad.f1(text, row.references) for text, row in zip(nearest, rows, strict=True)) / number,
        }
    )


def best_sentence(source: str) -> str:
    """The sentence of the context that shares most words with the question, of equals the shortest; all of a text that asks nothing."""
    match = ASKED.fullmatch(source)
    if match is None:
        return source
    wanted = set(squad.normalise(match["question"]).split())
    sentences = SENTENCE.split(match["context"])
    return max(sentences, key=lambda text: (len(wanted & set(squad.normalise(text).split())), -len(text)))
