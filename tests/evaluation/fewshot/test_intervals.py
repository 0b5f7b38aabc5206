"""Intervals by the bootstrap: what is known of proportions, and metrics that are no means."""

from __future__ import annotations

import math

import pytest

from weft.evaluation.fewshot.intervals import estimate
from weft.evaluation.fewshot.metrics import translation
from weft.evaluation.fewshot.templates import Item


def test_a_proportion_has_the_interval_of_a_binomial() -> None:
    half = [(float(number % 2),) for number in range(400)]
    value, (low, high) = estimate("accuracy", half, 0)
    assert value == 0.5
    deviation = 1.96 * math.sqrt(0.25 / 400)
    assert (low, high) == pytest.approx((0.5 - deviation, 0.5 + deviation), abs=0.01)


def test_the_seed_decides_and_certainty_is_certain() -> None:
    some = [(float(number % 3 == 0),) for number in range(30)]
    assert estimate("accuracy", some, 1) == estimate("accuracy", some, 1)
    assert estimate("accuracy", some, 1)[1] != estimate("accuracy", some * 4, 1)[1]
    assert estimate("accuracy", [(1.0,)] * 5, 0) == (1.0, (1.0, 1.0))


def test_perplexity_is_the_exponent_of_the_mean() -> None:
    value, (low, high) = estimate("perplexity", [(1.0,), (3.0,)], 0)
    assert value == pytest.approx(math.exp(2.0))
    assert low == pytest.approx(math.exp(1.0))
    assert high == pytest.approx(math.exp(3.0))
    assert math.isfinite(estimate("perplexity", [(1e9,)], 0)[0])


def test_bleu_is_that_of_the_corpus() -> None:
    sacrebleu = pytest.importorskip("sacrebleu")
    said = ["The small cat sits on the mat.", "It's raining today, isn't it?"]
    right = ["The small cat sat on the mat.", "It is raining today, isn't it?"]
    statistics = [translation(one, Item({}, ("",), references=(other,)))["bleu"] for one, other in zip(said, right, strict=True)]
    assert estimate("bleu", statistics, 0)[0] == pytest.approx(sacrebleu.corpus_bleu(said, [right], smooth_method="none").score)
