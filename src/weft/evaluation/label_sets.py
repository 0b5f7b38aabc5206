"""Sets of labels that a model wrote, against those of the data: set F1 (the mean over texts), micro and macro F1, exact sets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from weft.data.annotated.label_sets import labels_of
from weft.evaluation.answer_rows import AnswerRow, Scored


def scores(rows: Sequence[AnswerRow], config: Any) -> Scored:
    """Beside set F1 that of always telling the commonest set."""
    pairs = [(set(labels_of(row.said)), set(labels_of(row.references[0]))) for row in rows]
    common = set(Counter(frozenset(right) for _, right in pairs).most_common(1)[0][0]) if pairs else set()
    shared = Counter(name for said, right in pairs for name in said & right)
    predicted, true = (Counter(name for pair in pairs for name in pair[side]) for side in (0, 1))
    number = max(len(pairs), 1)
    return Scored(
        {
            "set_f1": sum(f1(said, right) for said, right in pairs) / number,
            "micro_f1": 2 * shared.total() / max(predicted.total() + true.total(), 1),
            "macro_f1": sum(2 * shared[name] / (predicted[name] + true[name]) for name in true) / max(len(true), 1),
            "exact": sum(said == right for said, right in pairs) / number,
            "commonest_set_f1": sum(f1(common, right) for _, right in pairs) / number,
        }
    )


def f1(said: set[str], right: set[str]) -> float:
    """Of two sets, 1 where both are empty."""
    return 2 * len(said & right) / (len(said) + len(right)) if said or right else 1.0
