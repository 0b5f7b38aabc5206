"""BLEU from sums: by hand, and against sacrebleu where it is installed."""

from __future__ import annotations

import random

import pytest
import torch

from weft.metrics.ngrams import bleu, sentence_bleu, statistics


def test_by_hand() -> None:
    found = statistics("abcd", "abdc")
    assert found.tolist() == [4, 4, 1, 3, 0, 2, 0, 1, 4, 4]
    assert bleu(found) == 0.0
    same = statistics("abcde", "abcde")
    assert bleu(same) == pytest.approx(100.0)
    assert bleu(statistics("abcd", "abcde")) == pytest.approx(100 * 2.718281828 ** (1 - 5 / 4))
    assert statistics(["a"] * 5, ["a"])[:2].tolist() == [1, 5]  # a match is counted once


def test_sums_are_the_corpus_of_sacrebleu() -> None:
    sacrebleu = pytest.importorskip("sacrebleu")
    chance = random.Random(0)
    pairs = []
    for _ in range(50):
        reference = [chance.choice("abcdefgh") * 3 for _ in range(chance.randint(4, 15))]
        candidate = [chance.choice("abcdefgh") * 3 if chance.random() < 0.2 else word for word in reference][: chance.randint(3, 15)]
        pairs.append((candidate, reference))
    total = torch.stack([statistics(*pair) for pair in pairs]).sum(0)
    expected = sacrebleu.corpus_bleu(
        [" ".join(c) for c, _ in pairs], [[" ".join(r) for _, r in pairs]], tokenize="none", smooth_method="none"
    )
    assert bleu(total) == pytest.approx(expected.score, abs=1e-6)


@pytest.mark.parametrize("words", [1, 2, 3, 6])
def test_few_sentences_are_smoothed_as_sacrebleu_does(words: int) -> None:
    sacrebleu = pytest.importorskip("sacrebleu")
    chance = random.Random(words)
    for _ in range(20):
        sides = [[[chance.choice("abcdef") * 2 for _ in range(chance.randint(1, words))] for _ in range(3)] for _ in range(2)]
        total = torch.stack([statistics(*pair) for pair in zip(*sides, strict=True)]).sum(0)
        said, wanted = ([" ".join(one) for one in side] for side in sides)
        assert bleu(total, smooth=True) == pytest.approx(sacrebleu.corpus_bleu(said, [wanted], tokenize="none").score, abs=1e-6)


def test_single_sentences_are_smoothed_as_sacrebleu_does() -> None:
    sacrebleu = pytest.importorskip("sacrebleu")
    chance = random.Random(1)
    assert sentence_bleu("abc", "xyz") == 0.0
    for _ in range(60):
        reference = [chance.choice("abcdef") * 2 for _ in range(chance.randint(1, 9))]
        candidate = [chance.choice("abcdef") * 2 for _ in range(chance.randint(1, 9))]
        expected = sacrebleu.sentence_bleu(" ".join(candidate), [" ".join(reference)], tokenize="none")
        assert sentence_bleu(candidate, reference) == pytest.approx(expected.score, abs=1e-6)
