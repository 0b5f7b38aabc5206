"""Training of a Unigram tokenizer by expectation maximisation (Kudo, 2018, arXiv:1804.10959).

The probability of a segmentation is the product of those of its pieces, that of a word the sum over all segmentations. Starting from
frequent substrings, expectation maximisation sets the probabilities and the pieces whose loss is smallest are pruned, until few enough
are left. The trainer of the tokenizers library depends on the order of a hash table; this one on the text alone.

Shapes: W words, P pieces, E edges (occurrences of a piece in a word), N nodes (boundaries between the characters of all words).
"""

from __future__ import annotations

import itertools
from array import array
from collections import Counter
from collections.abc import Collection, Mapping

import numpy as np

WORDS = 200_000
"""Words to train on, the most frequent ones."""
MAX_WORD, MAX_PIECE = 32, 16
SEEDS_PER_PIECE = 5
"""Initial substrings per final piece."""
KEPT_SHARE = 0.75
"""Share of the pieces that is kept in each round of pruning."""
MIN_PROBABILITY = 1e-9
"""Lower bound of a probability; the product of MAX_WORD of them is still above zero."""


class Lattice:
    """The lattice of all segmentations of some words."""

    def __init__(self, words: Collection[str], numbers: Mapping[str, int], whole: bool = True):
        """numbers: the index of each piece; without `whole`, a piece may not cover a whole word."""
        edges = array("i")
        for row, word in enumerate(words):
            for start in range(len(word)):
                for end in range(start + 1, min(start + MAX_PIECE, len(word)) + 1):
                    piece = numbers.get(word[start:end], -1)
                    if piece >= 0 and (whole or end - start < len(word)):
                        edges.extend((row, start, end, piece))
        self.row, begin, stop, self.piece = np.array(edges, dtype=np.int64).reshape(-1, 4).T  # each (E,)
        sizes = np.array([len(word) + 1 for word in words])
        self.last = np.cumsum(sizes) - 1  # (W,)
        self.first = self.last - sizes + 1
        self.before, self.after = self.first[self.row] + begin, self.first[self.row] + stop
        order = np.argsort(stop, kind="stable")
        self.steps = np.split(order, np.flatnonzero(np.diff(stop[order])) + 1)

    def forward(self, probability: np.ndarray) -> np.ndarray:
        """Forward probabilities: of the part of a word before each node (N,)."""
        total = np.zeros(self.last[-1] + 1)
        total[self.first] = 1.0
        for step in self.steps:
            np.add.at(total, self.after[step], total[self.before[step]] * probability[self.piece[step]])
        return total

    def backward(self, probability: np.ndarray) -> np.ndarray:
        """Backward probabilities: of the part after each node (N,)."""
        total = np.zeros(self.last[-1] + 1)
        total[self.last] = 1.0
        for step in reversed(self.steps):
            np.add.at(total, self.before[step], total[self.after[step]] * probability[self.piece[step]])
        return total

    def expected_counts(self, probability: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Expected count of each piece (P,), given counts of the words (W,)."""
        forward, backward = self.forward(probability), self.backward(probability)
        edge_probability = forward[self.before] * probability[self.piece] * backward[self.after]
        return np.bincount(self.piece, edge_probability * (counts / forward[self.last])[self.row], minlength=len(probability))


def learn(words: Mapping[str, int], characters: Collection[str], size: int) -> list[tuple[str, float]]:
    """At most `size` pieces, all `characters` among them, with their log-probability, the most probable first."""
    training_counts = training_words(words, set(characters))
    if not training_counts:
        return []
    pieces = seed_pieces(training_counts, characters, size)
    numbers = {piece: number for number, piece in enumerate(pieces)}
    lattice, alternatives = Lattice(training_counts, numbers), Lattice(pieces, numbers, whole=False)
    counts = np.array(list(training_counts.values()), dtype=np.float64)
    alive, single = np.ones(len(pieces), dtype=bool), np.array([len(piece) == 1 for piece in pieces])
    probability = np.full(len(pieces), 1 / len(pieces))
    while True:
        for _ in range(2):
            expected_counts = lattice.expected_counts(probability, counts)
            alive &= (expected_counts >= 0.5) | single
            expected_counts = np.where(alive, expected_counts, 0.0)
            probability = np.where(alive, np.maximum(expected_counts / expected_counts.sum(), MIN_PROBABILITY), 0.0)
        if alive.sum() <= size:
            break
        alternative = alternatives.forward(probability)[alternatives.last]  # (P,)
        loss = expected_counts * (np.log(np.maximum(probability, MIN_PROBABILITY)) - np.log(np.maximum(alternative, 1e-300)))
        rank = np.lexsort((-loss, ~alive, ~single))
        alive[rank[max(size, int(alive.sum() * KEPT_SHARE)) :]] = False
        probability = np.where(alive, probability, 0.0)
    result = [(pieces[number], round(float(np.log(probability[number])), 6)) for number in np.flatnonzero(alive)]
    return sorted(result, key=lambda item: (-item[1], item[0]))


def training_words(words: Mapping[str, int], characters: set[str]) -> Counter[str]:
    """The most frequent words without other characters, long ones split."""
    training_counts: Counter[str] = Counter()
    for word, count in sorted(words.items(), key=lambda item: (-item[1], item[0]))[:WORDS]:
        for in_alphabet, run in itertools.groupby(word, characters.__contains__):
            text = "".join(run)
            for start in range(0, len(text) if in_alphabet else 0, MAX_WORD):
                training_counts[text[start : start + MAX_WORD]] += count
    return training_counts


def seed_pieces(training_counts: Mapping[str, int], characters: Collection[str], size: int) -> list[str]:
    """The characters, and the substrings that cover most of the text."""
    counts: Counter[str] = Counter()
    for run, count in training_counts.items():
        for start in range(len(run)):
            for end in range(start + 2, min(start + MAX_PIECE, len(run)) + 1):
                counts[run[start:end]] += count
    covered = sorted((-count * len(piece), piece) for piece, count in counts.items() if count > 1)
    return [*characters, *(piece for _, piece in covered[: SEEDS_PER_PIECE * size])]
