"""Labelled brackets of trees, compared as the program evalb does with its parameters COLLINS.prm (Sekine & Collins, 1997).

- A constituent counts as (label, first word, end); those over no word do not count, nor do tags.
- Labels TOP, -NONE-, and the tags of commas, colons, full stops and quotes are deleted: words with such a tag are not counted as
  positions, so a bracket may hold them or not. The tags are those of the right tree where the other one has none.
- ADVP and PRT are one label.
- Of equal brackets of one tree each counts once; nothing is collapsed.
- Precision and recall are of all sentences together. A sentence is right where all of its brackets are.

Crossing brackets: those of the tree that overlap one of the right tree, and neither holds the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from weft.core.errors import DataError
from weft.data.trees.brackets import Leaf, Tree

DELETED = frozenset(("TOP", "-NONE-", ",", ":", "``", "''", "."))
EQUAL = {"PRT": "ADVP"}
Bracket = tuple[str, int, int]


@dataclass
class Agreement:
    """Counts over sentences."""

    shared: int = 0
    said: int = 0
    wanted: int = 0
    sentences: int = 0
    right: int = 0
    """Sentences with all of their brackets right, and no other."""
    crossing: int = 0
    without_crossing: int = 0

    def scores(self) -> dict[str, float]:
        """Labelled precision, recall and F1, and shares of sentences."""
        sentences = max(self.sentences, 1)
        return {
            "f1": 2 * self.shared / (self.said + self.wanted) if self.said + self.wanted else 0.0,
            "bracket_precision": self.shared / self.said if self.said else 0.0,
            "bracket_recall": self.shared / self.wanted if self.wanted else 0.0,
            "exact_tree": self.right / sentences,
            "crossing": self.crossing / sentences,
            "no_crossing": self.without_crossing / sentences,
        }


def brackets(tree: Tree, deleted: list[bool]) -> list[Bracket]:
    """Constituents of a tree; deleted: which of its words are no positions."""
    found: list[Bracket] = []

    def visit(node: Tree | Leaf, start: int, word: int) -> tuple[int, int]:
        """A node that begins at a position and a word -> where the next one does."""
        if isinstance(node, Leaf):
            return start + (not deleted[word]), word + 1
        own, position = len(found), start
        for child in node.children:
            position, word = visit(child, position, word)
        if position > start and node.label not in DELETED:
            found.insert(own, (EQUAL.get(node.label, node.label), start, position))
        return position, word

    visit(tree, 0, 0)
    return found


def crosses(one: Bracket, other: Bracket) -> bool:
    return one[1] < other[1] < one[2] < other[2] or other[1] < one[1] < other[2] < one[2]


def agreement(pairs: Iterable[tuple[Tree, Tree]]) -> Agreement:
    """Pairs of a tree and the right one, of the same words."""
    total = Agreement()
    for tree, right in pairs:
        leaves, own = list(right.leaves()), list(tree.leaves())
        if [leaf.word for leaf in leaves] != [leaf.word for leaf in own]:
            raise DataError(f"two trees of different words cannot be compared: {' '.join(leaf.word for leaf in own)[:60]!r}")
        deleted = [leaf.tag in DELETED for leaf in leaves]
        said, wanted = brackets(tree, deleted), brackets(right, deleted)
        shared = (Counter(said) & Counter(wanted)).total()
        crossing = sum(any(crosses(one, other) for other in wanted) for one in said)
        total.shared, total.said, total.wanted = total.shared + shared, total.said + len(said), total.wanted + len(wanted)
        total.sentences += 1
        total.right += shared == len(said) == len(wanted)
        total.crossing += crossing
        total.without_crossing += not crossing
    return total
