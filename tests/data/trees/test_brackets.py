"""Trees in brackets: read, cleaned, written, linearised and back."""

from __future__ import annotations

import itertools

import pytest

from weft.core.errors import DataError
from weft.data.trees.brackets import Leaf, Tree, bare_label, cleaned, parse, parse_all, right_branching, written
from weft.data.trees.grammar import sentences
from weft.data.trees.linearised import delinearise, linearise, rendered, repaired, tokens_of

POWERFUL = "(S (NP deep learning) (VP is (ADJP very powerful)))"
PENN = "( (S (NP-SBJ-1 (DT The) (NN cat)) (VP (VBD was) (VP (VBN seen) (NP (-NONE- *-1)))) (. .)))"


def test_a_tree_without_tags_goes_there_and_back() -> None:
    tree = parse(POWERFUL)
    tokens = linearise(tree)
    assert " ".join(tokens) == "(S (NP XX XX )NP (VP XX (ADJP XX XX )ADJP )VP )S"
    assert delinearise(tokens, ["deep", "learning", "is", "very", "powerful"]) == tree
    assert written(tree) == "(S (NP (XX deep) (XX learning)) (VP (XX is) (ADJP (XX very) (XX powerful))))"
    assert parse(written(tree)) == tree


def test_tags_stand_for_words() -> None:
    tree = parse("(S (NP (NNP Anna)) (VP (VBD slept)))")
    assert linearise(tree, tags=True) == ["(S", "(NP", "NNP", ")NP", "(VP", "VBD", ")VP", ")S"]
    assert delinearise(linearise(tree, tags=True), ["Anna", "slept"]) == tree


def test_a_constituent_of_one_word_without_a_tag_stays_one() -> None:
    tree = Tree("S", (Tree("NP", (Leaf("dogs"),)), Tree("VP", (Leaf("bark"),))))
    assert written(tree) == "(S (NP (XX dogs)) (VP (XX bark)))"
    assert parse(written(tree)) == tree


def test_what_is_not_said_and_functions_are_left_out() -> None:
    tree = cleaned(parse(PENN))
    assert tree is not None
    assert written(tree) == "(S (NP (DT The) (NN cat)) (VP (VBD was) (VP (VBN seen))) (. .))"
    assert [bare_label(label) for label in ("NP-SBJ-1", "NP=2", "-LRB-", "ADVP|PRT")] == ["NP", "NP", "-LRB-", "ADVP"]
    assert cleaned(parse("(S (NP (-NONE- *)))")) is None


def test_a_constituent_that_repeats_the_one_around_it_is_one() -> None:
    assert cleaned(parse("(TOP (S (S (NP (NN a) (NN b)))))")) == parse("(S (NP (NN a) (NN b)))")


def test_trees_tell_the_line_they_begin_in() -> None:
    assert [line for _, line in parse_all("(S (A a))\n\n(S\n (B b))\n")] == [1, 3]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("(S (NP a)", "not closed"),
        ("(S (NP a)))", ":1: a bracket closes that was not opened"),
        ("(S (NP a))\nword", ":2: 'word' stands outside"),
        ("(S (NP ) b)", "the brackets of NP hold no word"),
    ],
)
def test_what_is_no_tree_is_said_in_one_sentence(text: str, said: str) -> None:
    with pytest.raises(DataError, match=said):
        parse_all(text)


@pytest.mark.parametrize(
    "tokens", ["(S XX", "(S XX )S XX", "(S (NP )NP XX )S", "(S XX )NP", "XX", "(S XX XX XX )S", ")S", "(S XX )S (S XX )S", ""]
)
def test_tokens_that_make_no_tree_make_none_and_are_repaired(tokens: str) -> None:
    assert delinearise(tokens.split(), ["a", "b"]) is None
    tree = repaired(tokens.split(), ["a", "b"])
    assert tree.words() == ["a", "b"]
    assert repaired(tokens_of(rendered(tokens.split(), ["a", "b"])), ["a", "b"]).words() == ["a", "b"]


def test_what_is_rendered_only_goes_on() -> None:
    tree = parse(POWERFUL)
    tokens, words = linearise(tree), tree.words()
    texts = [rendered(tokens[:size], words) for size in range(len(tokens) + 1)]
    assert all(longer.startswith(text) for text, longer in itertools.pairwise(texts))
    assert texts[-1] == written(tree) and repaired(tokens_of(texts[-1]), words) == tree
    assert rendered(["(S", "(NP", ")VP", "XX"], []) == "(S (NP)VP (XX <unk>)"


def test_sentences_of_the_grammar_are_all_different_and_the_same_each_time() -> None:
    trees = sentences(300, 1)
    assert len(set(trees)) == 300 and trees == sentences(300, 1) != sentences(300, 2)
    for tree in trees:
        assert delinearise(linearise(tree, tags=True), tree.words()) == tree == parse(written(tree))


def test_right_branching() -> None:
    assert written(right_branching([Leaf(word) for word in "abc"])) == "(S (XX a) (NP (XX b) (NP (XX c))))"
