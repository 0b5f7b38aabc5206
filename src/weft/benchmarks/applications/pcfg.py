"""A probabilistic grammar read off a treebank by nltk, and its likeliest trees.

nltk's own ViterbiParser takes minutes for a sentence with a grammar of a treebank; here the chart is filled with arrays, which finds trees
of the same probability. Shapes: n words, K kinds of constituents, R binary rules.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft.core.errors import require
from weft.data.tokenizers.word_shapes import WordShapes
from weft.data.trees.brackets import Tree, parse, right_branching, written

TOP = "TOP"
MARKOV = 2
"""Sisters that a rule of a binarised constituent remembers."""


class PCFG:
    """Of trees whose words are taken as `words` takes them, so that unknown ones have a tag too."""

    def __init__(self, trees: list[Tree], words: WordShapes):
        nltk, self.words, productions = require("nltk", "dev"), words, []
        self.nltk = nltk
        for tree in trees:
            made = nltk.Tree(TOP, [nltk.Tree.fromstring(written(tree))])
            for place in made.treepositions("leaves"):
                made[place] = words.known(made[place])
            made.collapse_unary(collapsePOS=True)
            made.chomsky_normal_form(horzMarkov=MARKOV)
            productions += made.productions()
        grammar = nltk.induce_pcfg(nltk.Nonterminal(TOP), productions)
        self.kinds: dict[str, int] = {}
        self.leaves: dict[str, list[tuple[int, float]]] = {}
        rules: list[tuple[int, int, int, float]] = []
        self.top: dict[int, float] = {}
        for rule in grammar.productions():
            left, right, logprob = self._kind(rule.lhs()), rule.rhs(), math.log(rule.prob())
            if len(right) == 2:
                rules.append((left, self._kind(right[0]), self._kind(right[1]), logprob))
            elif isinstance(right[0], str):
                self.leaves.setdefault(right[0], []).append((left, logprob))
            else:  # only the root has a rule with one constituent
                self.top[self._kind(right[0])] = logprob
        self.names = list(self.kinds)
        rules.sort()
        self.left, self.first, self.second = (np.array([rule[i] for rule in rules], dtype=np.int64) for i in range(3))
        self.logprob = np.array([rule[3] for rule in rules])
        self.begins = np.flatnonzero(np.diff(self.left, prepend=-1)) if len(rules) else np.zeros(0, dtype=np.int64)

    def _kind(self, symbol: Any) -> int:
        return self.kinds.setdefault(str(symbol), len(self.kinds))

    def parse(self, words: list[str]) -> tuple[Tree, float] | None:
        """The likeliest tree and its log-probability; None where the grammar has none."""
        n = len(words)
        chart = np.full((n, n + 1, len(self.names)), -np.inf)
        back: dict[tuple[int, int, int], tuple[int, int]] = {}
        for i, word in enumerate(words):
            for kind, logprob in self.leaves.get(self.words.known(word), []):
                chart[i, i + 1, kind] = max(chart[i, i + 1, kind], logprob)
        for size in range(2, n + 1):
            for i in range(n - size + 1):
                self._fill(chart, back, i, i + size)
        ends = {kind: chart[0, n, kind] + logprob for kind, logprob in self.top.items()}
        if n == 1 or not ends or max(ends.values()) == -np.inf:
            return None
        best = max(ends, key=ends.__getitem__)
        made = self.nltk.Tree(TOP, [self._tree(back, words, 0, n, best)])
        made.un_chomsky_normal_form()
        return parse(str(made[0]).replace("\n", " ")), float(ends[best])

    def _fill(self, chart: np.ndarray, back: dict[tuple[int, int, int], tuple[int, int]], i: int, j: int) -> None:
        """The likeliest constituent of each kind over the words from i to j."""
        if not len(self.begins):
            return
        splits = np.arange(i + 1, j)
        scores = chart[i, splits][:, self.first] + chart[splits, j][:, self.second]  # (splits, R)
        where = scores.argmax(0)
        found = scores[where, np.arange(len(self.logprob))] + self.logprob  # (R,)
        highest = np.maximum.reduceat(found, self.begins)
        for number in np.flatnonzero(highest > -np.inf):
            begin = self.begins[number]
            end = self.begins[number + 1] if number + 1 < len(self.begins) else len(found)
            rule = begin + int(found[begin:end].argmax())
            kind = int(self.left[begin])
            chart[i, j, kind] = highest[number]
            back[i, j, kind] = (rule, int(splits[where[rule]]))

    def _tree(self, back: dict[tuple[int, int, int], tuple[int, int]], words: list[str], i: int, j: int, kind: int) -> Any:
        if j == i + 1:
            return self.nltk.Tree(self.names[kind], [words[i]])
        rule, middle = back[i, j, kind]
        sides = ((i, middle, int(self.first[rule])), (middle, j, int(self.second[rule])))
        return self.nltk.Tree(self.names[kind], [self._tree(back, words, *side) for side in sides])


def parsed(grammar: PCFG, right: Tree) -> Tree:
    """The grammar's tree of the words of another; a right-branching one where it has none."""
    found = grammar.parse(right.words())
    return found[0] if found else right_branching(list(right.leaves()))
