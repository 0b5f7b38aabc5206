"""A small probabilistic context-free grammar of English, and the trees that it makes: data for parsing that need no file.

Prepositional phrases attach to nouns or verbs by what the words are, so that a parser has something to learn.
"""

from __future__ import annotations

import numpy as np

from weft.data.trees.brackets import Leaf, Tree

Rule = tuple[float, tuple[str, ...]]
RULES: dict[str, tuple[Rule, ...]] = {
    "S": ((0.85, ("NP", "VP", ".")), (0.15, ("PP", ",", "NP", "VP", "."))),
    "SBAR": ((1.0, ("WHNP", "VP")),),
    "WHNP": ((1.0, ("WDT",)),),
    "NP": (
        (0.42, ("DT", "NN")),
        (0.14, ("DT", "ADJP", "NN")),
        (0.16, ("NNP",)),
        (0.08, ("NP", "OF")),
        (0.06, ("NP", ",", "NP", "CC", "NP")),
        (0.08, ("NP", "SBAR")),
        (0.06, ("PRP$", "NN")),
    ),
    "OF": ((1.0, ("IN_OF", "NP")),),
    "PP": ((0.6, ("IN", "NP")), (0.4, ("IN", "DT", "NN"))),
    "ADJP": ((0.7, ("JJ",)), (0.3, ("RB", "JJ"))),
    "VP": (
        (0.38, ("VBD", "NP")),
        (0.2, ("VBD", "NP", "PP")),
        (0.14, ("VBD_I",)),
        (0.12, ("VBD_I", "PP")),
        (0.08, ("MD", "VPB")),
        (0.08, ("VBZ_IS", "ADJP")),
    ),
    "VPB": ((1.0, ("VB", "NP")),),
}
"""Right sides by their chances. What stands on no left side is a kind of word."""
PHRASES = {"OF": "PP", "VPB": "VP"}
"""Labels of symbols that are only there to tell rules apart."""
WORDS: dict[str, tuple[str, str]] = {
    "DT": ("DT", "the a this every"),
    "NN": ("NN", "dog cat river letter house teacher window garden train king song paper watch light"),
    "NNP": ("NNP", "Anna Bruno Clara Dora Emil Paris Vienna Oslo"),
    "PRP$": ("PRP$", "her his their my"),
    "JJ": ("JJ", "old green quiet clever heavy small light powerful"),
    "RB": ("RB", "very quite hardly"),
    "IN": ("IN", "in near with behind after"),
    "IN_OF": ("IN", "of"),
    "VBD": ("VBD", "saw found followed painted heard wrote watched"),
    "VBD_I": ("VBD", "slept laughed waited sang"),
    "VB": ("VB", "see find follow paint hear write watch light"),
    "VBZ_IS": ("VBZ", "is"),
    "MD": ("MD", "will may must"),
    "CC": ("CC", "and or"),
    "WDT": ("WDT", "that which"),
    ".": (".", ". ?"),
    ",": (",", ","),
}
"""Tag and words of each kind; several words are of several kinds."""
DEEPEST = 6
"""Phrases within phrases, from which on the shortest rule is taken."""


def grow(generator: np.random.Generator, symbol: str = "S", depth: int = 0) -> Tree | Leaf:
    """A tree of the grammar."""
    if symbol in WORDS:
        tag, words = WORDS[symbol]
        choices = words.split()
        return Leaf(choices[int(generator.integers(len(choices)))], tag)
    rules = RULES[symbol]
    if depth >= DEEPEST:
        right = min((right for _, right in rules), key=len)
    else:
        point, number = generator.random(), 0
        while number < len(rules) - 1 and (point := point - rules[number][0]) >= 0:
            number += 1
        right = rules[number][1]
    return Tree(PHRASES.get(symbol, symbol), tuple(grow(generator, each, depth + 1) for each in right))


def sentences(number: int, seed: int) -> list[Tree]:
    """Different trees, so that those of validation were not seen."""
    generator = np.random.Generator(np.random.PCG64(seed))
    found: dict[Tree, None] = {}
    while len(found) < number:
        tree = grow(generator)
        assert isinstance(tree, Tree)
        found[tree] = None
    return list(found)
