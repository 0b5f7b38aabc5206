"""Labelled brackets counted as evalb counts them, by hand and beside its recorded output."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from weft.core.errors import DataError
from weft.data.trees.brackets import parse
from weft.evaluation.answer_rows import AnswerRow
from weft.evaluation.brackets import agreement
from weft.evaluation.parsing import scores

FIXTURE = json.loads((Path(__file__).parent / "evalb.json").read_text())
RIGHT = "(S (NP (DT the) (NN dog)) (VP (VBD saw) (NP (DT a) (NN cat)) (PRT (RP up))) (. .))"


def counted(said: str, right: str = RIGHT) -> tuple[int, int, int, int]:
    found = agreement([(parse(said), parse(right))])
    return found.shared, found.said, found.wanted, found.crossing


def test_by_hand() -> None:
    assert counted(RIGHT) == (5, 5, 5, 0)
    assert counted("(S (NP the dog) (VP saw (NP a cat) (ADVP (XX up)) .))") == (5, 5, 5, 0)  # PRT is ADVP, and a full stop no position
    assert counted("(S (NP the) (VP dog saw (NP a cat) up) .)".replace("(NP the)", "(NP (XX the))")) == (2, 4, 5, 1)
    assert counted("(TOP (S the dog saw a cat up .))") == (1, 1, 5, 0)  # TOP does not count
    assert counted("(S (S the dog saw a cat up .))") == (1, 2, 5, 0)  # equal brackets count once each
    assert counted("(NP the dog saw a cat up .)") == (0, 1, 5, 0)
    assert counted("(S (NP the dog) (VP saw a cat up) (X (. .)))") == (3, 3, 5, 0)  # nothing is left of X


def test_trees_of_other_words_are_refused() -> None:
    with pytest.raises(DataError, match="different words"):
        counted("(S a dog)")


@pytest.mark.parametrize("row", FIXTURE["sentences"])
def test_each_sentence_is_counted_as_by_evalb(row: dict[str, object]) -> None:
    assert list(counted(str(row["said"]), str(row["right"]))) == row["shared, said, wanted, crossing"]


def test_all_sentences_are_counted_as_by_evalb() -> None:
    found = agreement([(parse(row["said"]), parse(row["right"])) for row in FIXTURE["sentences"]]).scores()
    for name, value in FIXTURE["summary"].items():
        assert 100 * found[name] == pytest.approx(value, abs=0.005) or found[name] == pytest.approx(value, abs=0.005)


def test_every_sentence_counts_whether_it_has_a_tree_or_not() -> None:
    rows = [
        AnswerRow("", RIGHT, (RIGHT,)),
        AnswerRow("", "(S (NP (XX the) (XX dog))", (RIGHT,)),
        AnswerRow("", "(S (XX a) (XX dog))", (RIGHT,)),
    ]
    found = scores(rows, None).metrics
    assert found["valid_trees"] == pytest.approx(1 / 3) and found["exact_tree"] == pytest.approx(1 / 3)
    assert found["bracket_precision"] == 1.0 and found["bracket_recall"] == pytest.approx((5 + 2 + 1) / 15)
    assert 0 < found["right_branching_f1"] < found["f1"]
