"""ROUGE of summaries that a model wrote, how much of them is copied, and ROUGE of the first sentences of the texts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from weft.evaluation.answer_rows import AnswerRow, Scored
from weft.metrics.text_errors import rouge, words

SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[\"'A-Z(])|\n+")
LEADS = (1, 2, 3, 4, 5, 7, 10, 14, 20)
"""Numbers k of first sentences that are compared."""


def scores(rows: Sequence[AnswerRow], config: Any) -> Scored:
    """Means over texts of F1; copied: the share of the words said that the source has. lead_rougeL is that of the first k sentences for the
    best k of these texts, which is more than could be chosen without them."""
    found = mean_rouge([(row.said, row.references) for row in rows])
    said = [(word, set(words(row.source))) for row in rows for word in words(row.said)]
    found["copied"] = sum(word in source for word, source in said) / max(len(said), 1)
    best = max(LEADS, key=lambda k: leads(rows, k)["rougeL"])
    return Scored(found | {f"lead_{name}": value for name, value in leads(rows, best).items()}, {"lead sentences": best})


def leads(rows: Sequence[AnswerRow], k: int) -> dict[str, float]:
    """ROUGE of the first k sentences of each source."""
    return mean_rouge([(lead(row.source, k), row.references) for row in rows])


def lead(text: str, k: int) -> str:
    return " ".join(SENTENCE.split(text.strip())[:k])


def mean_rouge(rows: Sequence[tuple[str, Sequence[str]]]) -> dict[str, float]:
    """Of several references the one that a text is nearest to by ROUGE-L."""
    each = [max((rouge(text, one) for one in references), key=lambda found: found["rougeL"]) for text, references in rows]
    return {name: sum(one[name] for one in each) / max(len(each), 1) for name in ("rouge1", "rouge2", "rougeL")}
