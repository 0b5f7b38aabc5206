"""What word vectors know: analogies and similarities, from the files they are published in.

Analogies (Mikolov et al., 2013, arXiv:1301.3781): sections ": NAME" of lines "a b c d", answered by the word of largest cosine to
b - a + c, each of length 1, without a, b and c; capitals do not count, and only the most frequent words take part. As gensim's
evaluate_word_analogies. Similarities: two words and a number on each line, told by the correlation of the ranks with the cosine.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from weft.core.errors import DataError
from weft.data.base import Problems
from weft.data.io.files import show
from weft.data.io.records import number
from weft.data.io.text import read_texts
from weft.evaluation.evaluate import Evaluation, TaskMetrics
from weft.evaluation.ranks import spearman
from weft.inference.neighbours import word_table
from weft.runs.load import Loaded

CHUNK = 1 << 24
"""Cosines at once."""
LEMMA = re.compile(r"(.+)-[nvj]")
"""A word of MEN's file of lemmas, with its part of speech."""
UNKNOWN = "{what} with a word that is not among the {words:,} taken part, left out"


@dataclass(frozen=True)
class WordEvaluation(Evaluation):
    """The result of a task for word vectors, with its table."""

    task: str = ""
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class WordScores:
    metrics: dict[str, float]
    asked: int
    rows: Sequence[tuple[str, ...]]
    said: list[dict[str, Any]]


@dataclass(frozen=True)
class WordTask:
    head: tuple[str, ...]
    measure: Callable[[list[str], Tensor, list[str], str, Problems], WordScores]
    """Words in capitals, their vectors (V, D) of length 1, lines, the file's name."""


def run(loaded: Loaded, name: str, task: WordTask, path: str, vocabulary: int = 30_000) -> WordEvaluation:
    """The vectors of a model on a file, among its most frequent words."""
    if not path:
        raise DataError(f"{name}: name the file of the task with --data.path; its layout stands in docs/words.md")
    begin, problems = time.perf_counter(), Problems()
    words, vectors = word_table(loaded.model, loaded.tokenizer)
    words, vectors = words[:vocabulary], F.normalize(vectors[:vocabulary].cpu(), dim=-1)
    [text] = read_texts(path, problems)
    found = task.measure([word.upper() for word in words], vectors, text.splitlines(), show(path), problems)
    about = {"file": path, "words": len(words)}
    content = json.dumps(found.said, ensure_ascii=False, indent=1) + "\n"
    return WordEvaluation(
        checkpoint=str(loaded.path),
        data=about,
        examples=found.asked,
        metrics=found.metrics,
        seconds=time.perf_counter() - begin,
        problems=problems.lines(),
        findings=TaskMetrics(found.metrics, content, ".json"),
        task=name,
        head=task.head,
        rows=tuple(found.rows),
    )


def random_like(vectors: Tensor) -> Tensor:
    """As many vectors that mean nothing."""
    return F.normalize(torch.randn(vectors.shape, generator=torch.Generator().manual_seed(0)), dim=-1)


def analogies(capitals: list[str], vectors: Tensor, lines: list[str], name: str, problems: Problems) -> WordScores:
    known = set(capitals)
    sections: dict[str, list[tuple[str, ...]]] = {}
    section = ""
    for place, line in enumerate(lines, 1):
        words = tuple(line.upper().split())
        if line.startswith(":"):
            section = line.lstrip(": ").strip()
        elif len(words) != 4:
            if words:
                problems.add("lines that are not four words, left out", f"{name}:{place}")
        elif not all(word in known for word in words):
            problems.add(UNKNOWN.format(what="questions", words=len(vectors)), f"{name}:{place}")
            sections.setdefault(section, [])
        else:
            sections.setdefault(section, []).append(words)
    questions = [question for each in sections.values() for question in each]
    if not questions:
        raise DataError(f"{name}: none of its questions has four words that the model knows; four words on each line are expected")
    answers = solved(capitals, vectors, questions)
    chance = solved(capitals, random_like(vectors), questions)
    rows, said, at = [], [], 0
    for title, asked in sections.items():
        given = answers[at : at + len(asked)]
        right = sum(answer == question[3] for answer, question in zip(given, asked, strict=True))
        rows.append((title or "questions", f"{right:,}", f"{len(asked):,}", share(right, len(asked))))
        said += [{"section": title, "question": list(question), "said": answer} for question, answer in zip(asked, given, strict=True)]
        at += len(asked)
    total = len(questions)
    right, by_chance = (sum(a == q[3] for a, q in zip(each, questions, strict=True)) for each in (answers, chance))
    by_frequency = sum(question[3] == capitals[0] for question in questions)
    for title, each in (("all", right), ("random vectors", by_chance), ("the most frequent word", by_frequency)):
        rows.append((title, f"{each:,}", f"{total:,}", share(each, total)))
    metrics = {"accuracy": right / total, "random_vectors": by_chance / total, "most_frequent_word": by_frequency / total}
    return WordScores(metrics, total, rows, said)


def solved(capitals: list[str], vectors: Tensor, questions: Sequence[tuple[str, ...]]) -> list[str]:
    """The answers to questions; words that are one of a question's but for capitals are none."""
    known = first_places(capitals)
    same = torch.tensor([known[word] for word in capitals])
    first = torch.tensor([[known[word] for word in question[:3]] for question in questions])  # (Q, 3)
    answers: list[str] = []
    for index in torch.split(first, max(1, CHUNK // len(vectors))):
        a, b, c = vectors[index].unbind(1)
        cosine = (b - a + c) @ vectors.mT  # but for a factor of each row
        for column in index.mT:
            cosine.masked_fill_(same == column[:, None], -torch.inf)
        answers += [capitals[best] for best in cosine.argmax(1).tolist()]
    return answers


def first_places(capitals: list[str]) -> dict[str, int]:
    return {word: place for place, word in reversed(list(enumerate(capitals)))}


def share(right: int, total: int) -> str:
    return f"{100 * right / total:.1f} %" if total else "–"


def similarity(capitals: list[str], vectors: Tensor, lines: list[str], name: str, problems: Problems) -> WordScores:
    known = first_places(capitals)
    pairs = []
    for place, line in enumerate(lines, 1):
        parsed = pair(line)
        if parsed is None:
            if line.strip() and not line.startswith("#") and place > 1:  # the first line may name the columns
                problems.add("lines that are not two words and a number, left out", f"{name}:{place}")
        elif parsed[0].upper() not in known or parsed[1].upper() not in known:
            problems.add(UNKNOWN.format(what="pairs", words=len(vectors)), f"{name}:{place}")
        else:
            pairs.append(parsed)
    if len(pairs) < 2:
        raise DataError(
            f"{name}: {len(pairs)} of its pairs have two words that the model knows; two words and a number a line are expected"
        )
    index = torch.tensor([[known[first.upper()], known[second.upper()]] for first, second, _ in pairs])
    human = torch.tensor([value for *_, value in pairs], dtype=torch.float64)
    cosine, chance = ((table[index[:, 0]] * table[index[:, 1]]).sum(1).double() for table in (vectors, random_like(vectors)))
    near = -(index[:, 0] - index[:, 1]).abs().double()
    found = {title: spearman(value, human) for title, value in (("spearman", cosine), ("random_vectors", chance), ("frequency", near))}
    titles = ("cosine of the vectors", "random vectors", "nearness in the order of frequency")
    rows = [(title, f"{value:.4f}", f"{len(pairs):,}") for title, value in zip(titles, found.values(), strict=True)]
    said = [{"words": [a, b], "human": value, "cosine": c} for (a, b, value), c in zip(pairs, cosine.tolist(), strict=True)]
    return WordScores(found, len(pairs), rows, said)


def pair(line: str) -> tuple[str, str, float] | None:
    """Two words and how alike they are: the first number behind them, with tabs, commas, semicolons or spaces between the cells."""
    separator = next((one for one in "\t;," if one in line), None)
    cells = [cell.strip() for cell in line.split(separator)]
    value = next((found for found in map(number, cells[2:]) if found is not None), None)
    if len(cells) < 3 or value is None or not cells[0] or not cells[1]:
        return None
    first, second = (match[1] if (match := LEMMA.fullmatch(cell)) and len(cells) == 3 else cell for cell in cells[:2])
    return first, second, value


ANALOGIES = WordTask(("section", "right", "asked", "accuracy"), analogies)
SIMILARITY = WordTask(("by", "Spearman", "pairs"), similarity)
