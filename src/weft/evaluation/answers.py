"""Every source's best answer, compared with what was wanted, by the measure that the objective names (`--scores`).

The texts are those of the data where these keep them, as `Pairs` does, and not what the model's tokenizer makes of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from weft.data.base import Batch
from weft.evaluation import label_sets, parsing, question_answers, summaries, task_scores, translation
from weft.evaluation.answer_rows import AnswerRow, Scored
from weft.evaluation.evaluate import TaskMetrics
from weft.objectives.language.cmlm import CMLM
from weft.objectives.language.seq2seq import Seq2Seq

Measure = Callable[[Sequence[AnswerRow], Any], Scored | None]
SCORES: dict[str, Measure] = {
    "bleu": translation.scores,
    "brackets": parsing.scores,
    "label_sets": label_sets.scores,
    "rouge": summaries.scores,
    "squad": question_answers.scores,
    "tasks": task_scores.scores,
}


def measure(loaded: Any, objective: Seq2Seq | CMLM, data: Any, batches: Iterable[Batch]) -> TaskMetrics | None:
    """The scores of all answers; None for an objective that is not about whole texts."""
    config = objective.config
    if not config.decode:
        return None
    rows = answered(loaded, objective, data, batches)
    scored = SCORES[getattr(config, "scores", "bleu")](rows, config)
    if scored is None:
        return None
    content = {
        "metrics": scored.metrics,
        "references": "text of the data" if getattr(data, "texts", None) is not None else "tokens of the data, decoded",
        **scored.details,
        **objective.search(loaded.model),
        "translations": [{"source": row.source, "translation": row.said, "reference": row.references[0]} for row in rows],
    }
    return TaskMetrics(scored.metrics, json.dumps(content, indent=1, ensure_ascii=False) + "\n", ".json")


def answered(loaded: Any, objective: Seq2Seq | CMLM, data: Any, batches: Iterable[Batch]) -> list[AnswerRow]:
    """What the model says to each source of the batches."""
    texts, first, rows = getattr(data, "texts", None), 0, list[AnswerRow]()
    tokenizer = loaded.tokenizer
    for batch in batches:
        there = (batch["source_length"] > 0).nonzero().squeeze(1)
        source, lengths = batch["source"][there], batch["source_length"][there]
        bounded = [tokenizer.constraint(ids[:size]) for ids, size in zip(source.tolist(), lengths.tolist(), strict=True)]
        if any(one is not None for one in bounded) and isinstance(objective, Seq2Seq) and not objective.config.unconstrained:
            found = objective.answers(loaded.model, source, lengths, bounded)
        else:
            found = objective.answers(loaded.model, source, lengths)
        if texts is None:
            pairs = [
                (tokenizer.decode(ids), tokenizer.decode(wanted[1:]))
                for ids, wanted in zip(source.tolist(), batch["target"][there].tolist(), strict=True)
            ]
        else:
            pairs = [texts[(first + row) % len(texts)] for row in there.tolist()]
        first += len(batch["source"])
        said = [tokenizer.for_source(text).decode(ids) for (text, _), ids in zip(pairs, found, strict=True)]
        rows += [
            AnswerRow(text, answer, getattr(wanted, "references", (str(wanted),)))
            for (text, wanted), answer in zip(pairs, said, strict=True)
        ]
    return rows
