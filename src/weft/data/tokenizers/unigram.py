"""Learns the pieces of a Unigram tokenizer (Kudo, 2018, arXiv:1804.10959).

A way to cut a word into pieces has the product of their probabilities, and a word the sum over all ways. Starting from frequent
substrings, expectation maximisation sets the probabilities and the pieces that are missed least are dropped, until few enough
are left. The tokenizers library learns such pieces too, but there they hang on the order of a hash table; here on the text alone.

Shapes: W words, P pieces, E places of a piece in a word, N points between the characters of all words.
"""

from __future__ import annotations

import itertools
from array import array
from collections import Counter
from collections.abc import Collection, Mapping

import numpy as np

WORDS = 200_000
"""Words to learn from, the most frequent ones."""
LONGEST_WORD, LONGEST_PIECE = 32, 16
SEEDS = 5
"""Substrings to begin with, for each piece in the end."""
KEPT = 0.75
"""Share of the pieces that remain after a round."""
SMALLEST = 1e-9
"""Lower bound of a probability; the product of LONGEST_WORD of them is still above zero."""


class Lattice:
    """All places in some words where a piece fits."""

    def __init__(self, words: Collection[str], numbers: Mapping[str, int], whole: bool = True):
        """`numbers` numbers the pieces; without `whole` a piece that is all of a word does not fit it."""
        places = array("i")
        for row, word in enumerate(words):
            for start in range(len(word)):
                for end in range(start + 1, min(start + LONGEST_PIECE, len(word)) + 1):
                    piece = numbers.get(word[start:end], -1)
                    if piece >= 0 and (whole or end - start < len(word)):
                        places.extend((row, start, end, piece))
        self.row, begin, stop, self.piece = np.array(places, dtype=np.int64).reshape(-1, 4).T  # each (E,)
        sizes = np.array([len(word) + 1 for word in words])
        self.last = np.cumsum(sizes) - 1  # (W,)
        self.first = self.last - sizes + 1
        self.before, self.after = self.first[self.row] + begin, self.first[self.row] + stop
        order = np.argsort(stop, kind="stable")
        self.steps = np.split(order, np.flatnonzero(np.diff(stop[order])) + 1)

    def begun(self, probability: np.ndarray) -> np.ndarray:
        """Probability of the part of a word that lies before each point (N,)."""
        total = np.zeros(self.last[-1] + 1)
        total[self.first] = 1.0
        for step in self.steps:
            np.add.at(total, self.after[step], total[self.before[step]] * probability[self.piece[step]])
        return total

    def ended(self, probability: np.ndarray) -> np.ndarray:
        """Probability of the part that lies after each point (N,)."""
        total = np.zeros(self.last[-1] + 1)
        total[self.last] = 1.0
        for step in reversed(self.steps):
            np.add.at(total, self.before[step], total[self.after[step]] * probability[self.piece[step]])
        return total

    def uses(self, probability: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """How often each piece is expected (P,) in words that occur so often (W,)."""
        begun, ended = self.begun(probability), self.ended(probability)
        ways = begun[self.before] * probability[self.piece] * ended[self.after]
        return np.bincount(self.piece, ways * (counts / begun[self.last])[self.row], minlength=len(probability))


def learn(words: Mapping[str, int], characters: Collection[str], size: int) -> list[tuple[str, float]]:
    """At most `size` pieces, all `characters` among them, with the logarithm of their probability, the likeliest first."""
    runs = known_runs(words, set(characters))
    if not runs:
        return []
    pieces = seeds(runs, characters, size)
    numbers = {piece: number for number, piece in enumerate(pieces)}
    lattice, alternatives = Lattice(runs, numbers), Lattice(pieces, numbers, whole=False)
    counts = np.array(list(runs.values()), dtype=np.float64)
    alive, single = np.ones(len(pieces), dtype=bool), np.array([len(piece) == 1 for piece in pieces])
    probability = np.full(len(pieces), 1 / len(pieces))
    while True:
        for _ in range(2):
            uses = lattice.uses(probability, counts)
            alive &= (uses >= 0.5) | single
            uses = np.where(alive, uses, 0.0)
            probability = np.where(alive, np.maximum(uses / uses.sum(), SMALLEST), 0.0)
        if alive.sum() <= size:
            break
        instead = alternatives.begun(probability)[alternatives.last]  # (P,)
        gain = uses * (np.log(np.maximum(probability, SMALLEST)) - np.log(np.maximum(instead, 1e-300)))
        rank = np.lexsort((-gain, ~alive, ~single))
        alive[rank[max(size, int(alive.sum() * KEPT)) :]] = False
        probability = np.where(alive, probability, 0.0)
    found = [(pieces[number], round(float(np.log(probability[number])), 6)) for number in np.flatnonzero(alive)]
    return sorted(found, key=lambda item: (-item[1], item[0]))


def known_runs(words: Mapping[str, int], characters: set[str]) -> Counter[str]:
    """The most frequent words without other characters, the long ones in parts."""
    runs: Counter[str] = Counter()
    for word, count in sorted(words.items(), key=lambda item: (-item[1], item[0]))[:WORDS]:
        for known, run in itertools.groupby(word, characters.__contains__):
            text = "".join(run)
            for start in range(0, len(text) if known else 0, LONGEST_WORD):
                runs[text[start : start + LONGEST_WORD]] += count
    return runs


def seeds(runs: Mapping[str, int], characters: Collection[str], size: int) -> list[str]:
    """The characters, and the substrings that cover most of the text."""
    counts: Counter[str] = Counter()
    for run, count in runs.items():
        for start in range(len(run)):
            for end in range(start + 2, min(start + LONGEST_PIECE, len(run)) + 1):
                counts[run[start:end]] += count
    covered = sorted((-count * len(piece), piece) for piece, count in counts.items() if count > 1)
    return [*characters, *(piece for _, piece in covered[: SEEDS * size])]
