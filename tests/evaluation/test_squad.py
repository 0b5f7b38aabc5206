"""SQuAD's scores against the published rules, written out once more and in another way."""

from __future__ import annotations

import math
import re
import string

import hypothesis.strategies as st
import pytest
from hypothesis import given

from weft.evaluation.squad import Answered, best_threshold, exact, f1, normalise, score


def official_words(text: str) -> list[str]:
    """Lower case, then no punctuation, then no articles, then cut at white space."""
    kept = "".join(letter for letter in text.lower() if letter not in set(string.punctuation))
    return re.sub(r"\b(a|an|the)\b", " ", kept).split()


def official_f1(text: str, reference: str) -> float:
    said, right = official_words(text), official_words(reference)
    if not said or not right:
        return float(said == right)
    left, shared = list(right), 0
    for word in said:
        if word in left:
            left.remove(word)
            shared += 1
    if not shared:
        return 0.0
    precision, recall = shared / len(said), shared / len(right)
    return 2 * precision * recall / (precision + recall)


TEXTS = st.lists(st.sampled_from(["the", "A", "an", "Moon", "moon", "sun's", "U.S.", "-", "theatre", "é", " ", "'"]), max_size=5).map(
    " ".join
)


@given(TEXTS, st.lists(TEXTS, max_size=3))
def test_scores_are_those_of_the_published_rules(text: str, references: list[str]) -> None:
    kept = [reference for reference in references if official_words(reference)] or [""]
    assert exact(text, references) == max(float(official_words(text) == official_words(reference)) for reference in kept)
    assert f1(text, references) == pytest.approx(max(official_f1(text, reference) for reference in kept))


@pytest.mark.parametrize(
    ("text", "references", "match", "overlap"),
    [
        ("The Moon!", ["moon"], 1, 1),
        ("a moon, the sun", ["Sun"], 0, 2 / 3),
        ("moon moon sun", ["moon sun sun"], 0, 2 / 3),
        ("theatre", ["the atre"], 0, 0),
        ("", [], 1, 1),
        ("moon", [], 0, 0),
        ("", ["moon"], 0, 0),
        ("U.S.", ["the US", "France"], 1, 1),
        ("big red sun", ["red", "the big red"], 0, 0.8),
    ],
)
def test_cases_by_hand(text: str, references: list[str], match: float, overlap: float) -> None:
    assert (exact(text, references), f1(text, references)) == (match, pytest.approx(overlap))


def test_normal_form() -> None:
    assert normalise("  The   cat's (an) A-team, the\tend. ") == "cats ateam end"


def answered(text: str, *references: str, doubt: float = 0.0) -> Answered:
    return Answered(references, text, text, doubt)


def test_a_file_of_version_1_has_two_numbers() -> None:
    assert score([answered("moon", "moon", "sun"), answered("the big sun", "sun")]) == {"exact_match": 0.5, "f1": pytest.approx(5 / 6)}


def test_a_file_of_version_2_is_scored_by_kind() -> None:
    three = [Answered(("moon",), "moon", "moon", -2.0), Answered((), "", "sun", 1.0), Answered((), "sky", "sky", -1.0)]
    found = score([*three, Answered(("sun",), "", "sun", 3.0)])
    assert found == {
        "exact_match": 0.5,
        "f1": 0.5,
        "answerable_exact_match": 0.5,
        "answerable_f1": 0.5,
        "unanswerable_exact_match": 0.5,
        "unanswerable_f1": 0.5,
        "best_f1": 0.75,
        "best_threshold": -2.0,
    }


@given(st.lists(st.tuples(st.booleans(), st.integers(-3, 3), st.sampled_from(["moon", "sun", "moon sun"])), min_size=1, max_size=12))
def test_the_best_threshold_is_that_of_trying_all(questions: list[tuple[bool, int, str]]) -> None:
    given_ = [Answered(("moon",) if has else (), best, best, float(doubt)) for has, doubt, best in questions]

    def at(threshold: float) -> float:
        return sum(f1(one.best if one.doubt <= threshold else "", one.references) for one in given_) / len(given_)

    found = best_threshold(given_)
    assert found["best_f1"] == pytest.approx(max(at(threshold) for threshold in (-math.inf, *range(-3, 4))))
    assert at(found["best_threshold"]) == pytest.approx(found["best_f1"])
