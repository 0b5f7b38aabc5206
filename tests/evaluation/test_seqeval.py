"""Entities and their F1 against seqeval, in its mode that keeps to the rules of CoNLL-2003."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from weft.evaluation.entities import entities, entity_scores

seqeval = pytest.importorskip("seqeval.metrics")
labelling = pytest.importorskip("seqeval.metrics.sequence_labeling")
KINDS = ("PER", "LOC", "ORG")
FIXTURES = [
    ("O B-PER I-PER O B-LOC", "O B-PER I-PER O B-LOC"),
    ("B-LOC O B-PER I-PER", "O O B-PER O"),
    ("I-PER I-LOC O B-ORG B-ORG I-ORG", "B-PER I-LOC O B-ORG I-ORG I-ORG"),
    ("O O O", "O O O"),
    ("B-PER I-LOC I-LOC", "B-PER B-LOC I-LOC"),
]
TAGS = st.sampled_from(["O", *(f"{prefix}-{kind}" for prefix in "BI" for kind in KINDS)])


def compared(pairs: list[tuple[list[str], list[str]]]) -> None:
    true, said = [one for one, _ in pairs], [other for _, other in pairs]
    expected = {
        "precision": seqeval.precision_score(true, said, zero_division=0),
        "recall": seqeval.recall_score(true, said, zero_division=0),
        "f1": seqeval.f1_score(true, said, zero_division=0),
    }
    assert entity_scores(pairs) == pytest.approx({name: float(value) for name, value in expected.items()})


def test_scores_are_those_of_seqeval_on_fixtures() -> None:
    compared([(one.split(), other.split()) for one, other in FIXTURES])


@given(st.lists(st.lists(st.tuples(TAGS, TAGS), min_size=1, max_size=10), min_size=1, max_size=4))
def test_scores_are_those_of_seqeval(sentences: list[list[tuple[str, str]]]) -> None:
    compared([([one for one, _ in sentence], [other for _, other in sentence]) for sentence in sentences])


@given(st.lists(TAGS, min_size=1, max_size=12))
def test_entities_are_those_of_seqeval(tags: list[str]) -> None:
    assert entities(tags) == set(labelling.get_entities(tags))
