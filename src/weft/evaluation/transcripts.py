"""Word and character error rate of what a recogniser says of sounds, and the share that is right to the letter."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

from weft.data.base import Batch
from weft.evaluation.evaluate import TaskMetrics
from weft.metrics.text_errors import character_error_rate, word_error_rate


def measure(loaded: Any, objective: Any, data: Any, batches: Iterable[Batch]) -> TaskMetrics | None:
    """Every sound's transcript against its text, beside that of saying the commonest text each time."""
    if not getattr(objective.config, "decode", True):
        return None
    tokenizer, texts, first = loaded.tokenizer, getattr(data, "texts", None) or None, 0
    rows: list[dict[str, str]] = []
    for batch in batches:
        there = (batch["source_length"] > 0).nonzero().squeeze(1)
        said = objective.answers(loaded.model, batch["source"][there], batch["source_length"][there])
        for row, ids, target in zip(there.tolist(), said, batch["target"][there].tolist(), strict=True):
            name, text = texts[(first + row) % len(texts)] if texts else ("", tokenizer.decode(target[1:]))
            rows.append({"sound": name, "transcript": tokenizer.decode(ids), "text": text})
        first += len(batch["source"])
    if not rows:
        return None
    pairs = [(row["transcript"], row["text"]) for row in rows]
    (commonest, number), *_ = Counter(text for _, text in pairs).most_common(1)
    metrics = {
        "wer": word_error_rate(pairs),
        "cer": character_error_rate(pairs),
        "exact": sum(said == text for said, text in pairs) / len(pairs),
        "commonest_wer": word_error_rate((commonest, text) for _, text in pairs),
        "commonest_exact": number / len(pairs),
    }
    content = {"metrics": metrics, **objective.search(loaded.model), "transcripts": rows}
    return TaskMetrics(metrics, json.dumps(content, indent=1, ensure_ascii=False) + "\n", ".json")
