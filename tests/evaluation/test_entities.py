"""Entities against the rules of CoNLL's script, written out once more as it states them."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from weft.evaluation.entities import entities, entity_scores


def ends(before: str, tag: str, before_type: str, type_: str) -> bool:
    """conlleval's endOfChunk, with the E and S of its successors."""
    if before in "ES" or (before in "BI" and tag in "BSO"):
        return True
    return before != "O" and before_type != type_


def starts(before: str, tag: str, before_type: str, type_: str) -> bool:
    """conlleval's startOfChunk."""
    if tag in "BS" or (before in "ESO" and tag in "EI"):
        return True
    return tag != "O" and before_type != type_


def official(tags: list[str]) -> set[tuple[str, int, int]]:
    found, before, before_type, begin = set(), "O", "", 0
    for place, whole in enumerate([*tags, "O"]):
        tag, _, type_ = whole.partition("-")
        if ends(before, tag, before_type, type_):
            found.add((before_type, begin, place - 1))
        if starts(before, tag, before_type, type_):
            begin = place
        before, before_type = tag, type_
    return found


TAGS = st.lists(st.sampled_from(["O", *(f"{prefix}-{kind}" for prefix in "BIES" for kind in ("PER", "LOC-X"))]), max_size=12)


@given(TAGS)
def test_entities_are_those_of_the_published_rules(tags: list[str]) -> None:
    assert entities(tags) == official(tags)


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("O B-PER I-PER O", {("PER", 1, 2)}),
        ("B-PER B-PER I-PER", {("PER", 0, 0), ("PER", 1, 2)}),
        ("I-PER I-PER I-LOC", {("PER", 0, 1), ("LOC", 2, 2)}),
        ("B-PER I-LOC I-LOC", {("PER", 0, 0), ("LOC", 1, 2)}),
        ("O I-PER O I-PER", {("PER", 1, 1), ("PER", 3, 3)}),
        ("B-PER I-PER E-PER S-PER O", {("PER", 0, 2), ("PER", 3, 3)}),
        ("O O", set()),
        ("", set()),
    ],
)
def test_cases_by_hand(tags: str, expected: set[tuple[str, int, int]]) -> None:
    assert entities(tags.split()) == expected


def test_scores_count_over_all_sentences() -> None:
    """Two of three found entities are among the four true ones; one has the wrong end."""
    true = ["B-PER I-PER O B-LOC", "B-LOC O B-PER I-PER"]
    said = ["B-PER I-PER O B-LOC", "O O B-PER O"]
    found = entity_scores((one.split(), other.split()) for one, other in zip(true, said, strict=True))
    assert found == {"precision": 2 / 3, "recall": 0.5, "f1": pytest.approx(4 / 7)}
    assert entity_scores([(["O"], ["O"])]) == {"precision": 0.0, "recall": 0.0, "f1": 0.0}
