"""How many answers are not the same alone and in company, with and without batch invariance, and what invariance costs.

The prompts are pieces of text, each continued greedily by the same number of tokens: one by one, then beside others.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Any

import torch

from weft.benchmarks.timing import synchronise
from weft.data.text.python_source import python_files
from weft.inference.engine import Engine, generate_all
from weft.inference.request import Request, Sampling

SHORTEST, LONGEST = 16, 64
"""Tokens of a prompt."""


def prompts_of(tokenizer: Any, number: int) -> list[tuple[int, ...]]:
    """Pieces of the Python standard library, of different lengths, which any machine has."""
    prompts: list[tuple[int, ...]] = []
    for path in python_files():
        text = path.read_text(encoding="utf-8", errors="replace")
        middle = len(text) // 2
        ids = tokenizer.encode(text[middle : middle + 16 * LONGEST]).tolist()
        size = SHORTEST + 7 * len(prompts) % (LONGEST - SHORTEST + 1)
        if len(ids) >= size:
            prompts.append(tuple(ids[:size]))
        if len(prompts) == number:
            break
    return prompts


def random_prompts(vocabulary: int, number: int) -> list[tuple[int, ...]]:
    draw = torch.Generator().manual_seed(1)
    sizes = [SHORTEST + 7 * index % (LONGEST - SHORTEST + 1) for index in range(number)]
    return [tuple(torch.randint(0, vocabulary, (size,), generator=draw).tolist()) for size in sizes]


def first_difference(one: Sequence[int], other: Sequence[int]) -> int | None:
    """The position of the first token that differs; None where none does."""
    return next((position for position, (a, b) in enumerate(zip(one, other, strict=True)) if a != b), None)


def measure(model: Any, tokenizer: Any, prompts: Sequence[tuple[int, ...]], companies: Sequence[int], added: int) -> list[dict[str, Any]]:
    """For each number of answers made at once, without and with invariance: tokens a second, the share of answers that are not those of
    the same engine alone, and where they part."""
    sampling = Sampling(temperature=0.0, max_new_tokens=added, ignore_end=True)
    requests, rows, speed = [Request(ids, sampling) for ids in prompts], list[dict[str, Any]](), dict[int, float]()
    for batch_invariant in (False, True):
        alone: list[list[int]] = []
        for company in (1, *companies):
            engine = Engine(model, tokenizer, slots=company, prefixes=0, batch_invariant=batch_invariant)
            generate_all(engine, requests[: 2 * company])
            synchronise()
            begin = time.perf_counter()
            answers = [[token.id for token in answer.tokens] for answer in generate_all(engine, requests)]
            synchronise()
            rate = len(requests) * added / (time.perf_counter() - begin)
            row: dict[str, Any] = {"invariant": batch_invariant, "company": company, "tokens_per_second": rate}
            if company == 1:
                alone = answers
            else:
                parted = [at for one, other in zip(alone, answers, strict=True) if (at := first_difference(one, other)) is not None]
                row["diverged"] = len(parted) / len(answers)
                row |= {"first_divergence_least": min(parted), "first_divergence_median": statistics.median(parted)} if parted else {}
            if batch_invariant:
                row["cost"] = 1 - rate / speed[company]
            speed[company] = rate
            rows.append(row)
    return rows
