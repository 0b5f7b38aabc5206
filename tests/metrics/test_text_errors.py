"""ROUGE and error rates: by hand, against plain definitions, and against other packages where they are installed."""

from __future__ import annotations

from itertools import combinations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from weft.metrics.text_errors import (
    character_error_rate,
    common_subsequence,
    edit_distance,
    rouge,
    rouge_l,
    rouge_n,
    word_error_rate,
)

LETTERS = st.text("abc", max_size=7)


def test_rouge_by_hand() -> None:
    text, reference = "The cat sat on the mat.", "the cat was on the mat"
    assert rouge_n(text, reference, 1) == pytest.approx(5 / 6)  # the, cat, on, the, mat
    assert rouge_n(text, reference, 2) == pytest.approx(3 / 5)  # the cat, on the, the mat
    assert rouge_l(text, reference) == pytest.approx(5 / 6)
    assert rouge_n("the the the", "the", 1) == pytest.approx(2 * 1 / (3 + 1))  # counted as often as both have it
    assert rouge("nothing shared", "here or there") == {"rouge1": 0.0, "rouge2": 0.0, "rougeL": 0.0}
    assert rouge("", "") == {"rouge1": 0.0, "rouge2": 0.0, "rougeL": 0.0}


def test_rouge_l_by_the_example_of_its_paper() -> None:
    """Lin, 2004, section 3: of two texts with the same words, the one that keeps their order is nearer."""
    reference = "police killed the gunman"
    assert rouge_l("police kill the gunman", reference) == pytest.approx(3 / 4)
    assert rouge_l("the gunman kill police", reference) == pytest.approx(2 / 4)


@given(LETTERS, LETTERS)
def test_the_longest_common_subsequence_is_the_longest_there_is(one: str, other: str) -> None:
    parts = [{"".join(part) for size in range(len(side) + 1) for part in combinations(side, size)} for side in (one, other)]
    assert common_subsequence(one, other) == max(map(len, parts[0] & parts[1]))


@pytest.mark.parametrize(
    ("one", "other", "edits"), [("kitten", "sitting", 3), ("saturday", "sunday", 3), ("", "abc", 3), ("abc", "", 3), ("", "", 0)]
)
def test_edit_distance_by_hand(one: str, other: str, edits: int) -> None:
    assert edit_distance(one, other) == edits


def plain_distance(one: str, other: str) -> int:
    if not one or not other:
        return len(one) + len(other)
    substituted = plain_distance(one[1:], other[1:]) + (one[0] != other[0])
    return min(substituted, plain_distance(one[1:], other) + 1, plain_distance(one, other[1:]) + 1)


@given(st.text("abc", max_size=5), st.text("abc", max_size=5))
def test_edit_distance_by_its_definition(one: str, other: str) -> None:
    assert edit_distance(one, other) == plain_distance(one, other)


def test_error_rates_are_of_the_whole_corpus() -> None:
    pairs = [("the cat", "the cat sat"), ("a dog ran off", "a dog ran")]
    assert word_error_rate(pairs) == pytest.approx(2 / 6)
    assert character_error_rate([("abd", "abc"), ("x", "xy")]) == pytest.approx(2 / 5)
    assert word_error_rate([("one two three", "four")]) == 3.0
    assert word_error_rate([("", "")]) == 0.0
    assert word_error_rate([("word", "")]) == 1.0


def test_other_packages_say_the_same() -> None:
    scorer = pytest.importorskip("rouge_score.rouge_scorer").RougeScorer(["rouge1", "rouge2", "rougeL"])
    jiwer = pytest.importorskip("jiwer")
    text, reference = "It's the second-best answer, or 2nd.", "the second best answer is the 2nd answer"
    assert rouge(text, reference) == pytest.approx({name: score.fmeasure for name, score in scorer.score(reference, text).items()})
    assert word_error_rate([(text, reference)]) == pytest.approx(jiwer.wer(reference, text))
    assert character_error_rate([(text, reference)]) == pytest.approx(jiwer.cer(reference, text))
