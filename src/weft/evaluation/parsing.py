"""Trees that a model wrote against those of a treebank: labelled brackets as evalb counts them, and how many are trees at all.

What is no tree of the sentence's words is repaired before it is compared: every sentence counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.core.errors import DataError
from weft.data.tokenizers.base import WhitespaceTokenizer
from weft.data.trees.brackets import Tree, parse, right_branching
from weft.data.trees.linearised import repaired, tokens_of
from weft.evaluation.answer_rows import AnswerRow, Scored
from weft.evaluation.brackets import agreement

UNKNOWN = WhitespaceTokenizer.UNKNOWN
"""What stands for a word that a model said in the wrong place."""


def scores(rows: Sequence[AnswerRow], config: Any) -> Scored:
    """F1 and more of all sentences, with F1 of right-branching trees beside it."""
    pairs, plain, valid = [], [], 0
    for row in rows:
        right = parse(row.references[0])
        tree = tree_of(row.said, right.words())
        valid += tree is not None
        pairs.append((tree or repaired(tokens_of(row.said), right.words()), right))
        plain.append((right_branching(list(right.leaves())), right))
    found = agreement(pairs).scores() | {"valid_trees": valid / max(len(rows), 1)}
    return Scored(found | {"right_branching_f1": agreement(plain).scores()["f1"]}, {"parameters": "COLLINS.prm"})


def tree_of(text: str, words: list[str]) -> Tree | None:
    """A text as a tree of these words; None where it is none."""
    try:
        tree = parse(text)
    except DataError:
        return None
    tagged = all(leaf.tag != UNKNOWN for leaf in tree.leaves())
    return tree if tagged and tree.words() == words else None
