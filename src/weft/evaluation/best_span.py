"""Questions answered by spans: the best answer over all windows of a paragraph, as text, and how right it is."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from itertools import chain

from weft.data.annotated.spans import Spans
from weft.data.base import Batch
from weft.evaluation.evaluate import TaskMetrics
from weft.evaluation.squad import Answered, score
from weft.inference.predict.words import Best
from weft.objectives.language.extractive_qa import ExtractiveQA
from weft.runs.load import Loaded


def measure(loaded: Loaded, objective: ExtractiveQA, data: Spans, batches: Iterable[Batch]) -> TaskMetrics:
    """Exact match and F1 over the questions all of whose windows are in the batches, which follow the order of the data."""
    found = answers(loaded, objective, data, batches)
    threshold = objective.config.null_score_threshold if any(not best.example.references for best in found) else math.inf
    answered = [
        Answered(best.example.references, best.text if best.null - best.score <= threshold else "", best.text, best.null - best.score)
        for best in found
    ]
    said = {best.example.name: one.text for best, one in zip(found, answered, strict=True)}
    return TaskMetrics(score(answered), json.dumps(said, ensure_ascii=False, indent=1) + "\n", ".json")


def answers(loaded: Loaded, objective: ExtractiveQA, data: Spans, batches: Iterable[Batch]) -> list[Best]:
    """The best answer to each question."""
    found: dict[str, Best] = {}
    decoded = (zip(*(part.flatten().tolist() for part in objective.decode(loaded.model, batch)), strict=True) for batch in batches)
    for window, one in zip(data.windows, chain.from_iterable(decoded), strict=False):
        found.setdefault(window.example.name, Best(window.example)).see(window, *one)
    return [best for best in found.values() if best.complete]
