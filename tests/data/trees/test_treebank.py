"""Treebanks as pairs, and the automaton that lets nothing but trees be written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from weft.core.errors import ConfigError, DataError
from weft.data.base import Data
from weft.data.tokenizers.base import dump, load
from weft.data.tokenizers.special_tokens import END
from weft.data.tokenizers.word_shapes import shape
from weft.data.trees.brackets import parse
from weft.data.trees.linearised import linearise
from weft.data.trees.tree_tokens import Leaves, TreeTokenizer
from weft.data.trees.treebank import TreebankConfig

TREES = """
( (S (NP-SBJ (NNP Anna)) (VP (VBD saw) (NP (DT the) (NN cat))) (. .)) )
( (S (NP (DT the) (NN cat)) (VP (VBD saw)
     (NP (NNP Anna))) (. .)) )
( (NP (-NONE- *)) )
( (S (NP (DT the) (JJ old) (NN cat) (PP (IN of) (NP (NNP Anna)))) (VP (VBD slept)) (. .)) )
"""
EVERY = pytest.mark.parametrize("leaves", ["words", "tags", "placeholders"])


def data(folder: Path, **settings: object) -> Data:
    (folder / "wsj.mrg").write_text(TREES)
    return TreebankConfig(path=str(folder), validation=0.0, min_count=1, **settings).build()  # type: ignore[arg-type]


@EVERY
def test_a_tree_is_decoded_as_it_was_encoded(tmp_path: Path, leaves: Leaves) -> None:
    made = data(tmp_path, leaves=leaves)
    tokenizer = load(dump(made.tokenizer))
    assert isinstance(tokenizer, TreeTokenizer)
    assert "trees without a word" in str(made.problems.lines())
    for sentence, tree in made.train.texts:  # type: ignore[attr-defined]
        ids = [*tokenizer.encode_target(tree).tolist(), END]
        said = parse(tokenizer.for_source(sentence).decode(ids))
        assert linearise(said) == linearise(parse(tree)) and said.words() == sentence.split()


@EVERY
@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_drawn_under_the_constraint_is_a_tree(tmp_path: Path, leaves: Leaves, seed: int) -> None:
    """Even with no room to spare."""
    tokenizer = data(tmp_path, leaves=leaves).tokenizer
    generator = np.random.Generator(np.random.PCG64(seed))
    for size in range(1, 9):
        words = ["cat", "unseen"][seed % 2 : seed % 2 + 1] * size
        own, longest = tokenizer.for_source(" ".join(words)), size + 3 + 2 * seed
        constraint = tokenizer.constraint(tokenizer.encode(" ".join(words)).tolist())
        state, ids = constraint.start(), list[int]()
        while ids[-1:] != [END]:
            allowed = constraint.allowed(state, longest - len(ids)).nonzero().squeeze(1).tolist()
            ids.append(int(generator.choice(allowed)))
            state = constraint.advance(state, ids[-1])
        assert len(ids) <= longest
        assert parse(own.decode(ids)).words() == words


@EVERY
def test_every_tree_of_the_data_is_allowed(tmp_path: Path, leaves: Leaves) -> None:
    made = data(tmp_path, leaves=leaves)
    for sentence, tree in made.train.texts:  # type: ignore[attr-defined]
        constraint = made.tokenizer.constraint([*made.tokenizer.encode(sentence).tolist(), END])
        ids = [*made.tokenizer.encode_target(tree).tolist(), END]
        state = constraint.start()
        for place, token in enumerate(ids):
            allowed = constraint.allowed(state, len(ids) - place)
            assert allowed[token] and allowed.dtype == torch.bool and len(allowed) == made.tokenizer.size
            state = constraint.advance(state, token)


def test_a_word_at_the_wrong_place_makes_no_tree(tmp_path: Path) -> None:
    tokenizer = data(tmp_path).tokenizer.for_source("cat saw")
    ids = tokenizer.encode_target("(S (NP (NN saw)) (VP (VBD cat)))").tolist()
    assert tokenizer.decode([*ids, END]) == "(S (NP (<unk> cat)) (VP (<unk> saw)))"


def test_long_sentences_are_left_out_and_never_cut(tmp_path: Path) -> None:
    made = data(tmp_path, max_words=5)
    assert len(made.train) == 2
    assert any("more than 5 words" in line for line in made.problems.lines())


def test_the_grammar_is_there_without_a_file() -> None:
    made = TreebankConfig(trees=50).build()
    assert len(made.train) == 45 and made.validation is not None and len(made.validation) == 5


def test_what_cannot_be_is_said(tmp_path: Path) -> None:
    (tmp_path / "empty.mrg").write_text("\n")
    with pytest.raises(DataError, match="no tree in brackets"):
        TreebankConfig(path=str(tmp_path / "empty.mrg")).build()
    with pytest.raises(ConfigError, match="must be from 2 to"):
        TreebankConfig(trees=1).build()


def test_shapes_of_words() -> None:
    assert [shape(word) for word in ("Florian", "re-opened", "1,234", "IBM", "USA", "x", "B-52")] == [
        "<Aa>", "<a-.ed>", "<0>", "<A>", "<A>", "<a>", "<A0->"
    ]  # fmt: skip
