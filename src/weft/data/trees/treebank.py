"""Sentences and their constituency trees, of treebank files in brackets, or of a small grammar where no file is named.

Batch: as of `weft.data.text.pairs`; the source is the words of a sentence, the target its linearised tree.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft.core import random
from weft.core.errors import ConfigError, DataError
from weft.data.base import Problems
from weft.data.io.files import show
from weft.data.io.text import read_parts
from weft.data.split import hold_out
from weft.data.text.pairs import PairsConfig
from weft.data.tokenizers.base import WhitespaceTokenizer
from weft.data.tokenizers.word_shapes import WordShapes
from weft.data.trees.brackets import Tree, cleaned, parse, parse_all, written
from weft.data.trees.grammar import sentences
from weft.data.trees.linearised import linearise
from weft.data.trees.tree_tokens import Leaves, TreeTokenizer

SUFFIXES = (".mrg", ".parse", ".tree", ".ptb", ".txt", ".gz")


@dataclass(frozen=True, kw_only=True)
class TreebankConfig(PairsConfig):
    path: str = ""
    """A file of trees in brackets, or a folder or archive of such files (.mrg, .parse, .tree, .ptb, .txt); empty takes sentences of a small
    grammar."""
    leaves: Leaves = "words"
    """What a linearised tree has for its words: the words themselves, by which a decoder knows how far it is, their tags, or XX."""
    max_words: int = 0
    """Sentences of more words are left out; 0 for none."""
    max_length: int = 256
    """Most words of a sentence, and tokens of its linearised tree; those with more are left out, as half a tree is none."""
    min_count: int = 2
    """Words that occur less often in the training sentences are told by their shape: capitals, digits, a hyphen, an ending."""
    trees: int = 3000
    """Sentences of the grammar."""
    seed: int = 0
    """Of the grammar's sentences."""

    def _check(self) -> None:
        if self.min_count < 1 or self.max_words < 0:
            raise ConfigError(
                f"--data.min-count must be at least 1 and --data.max-words not negative, not {self.min_count}, {self.max_words}"
            )
        if self.oov_words:
            raise ConfigError("--data.oov-words is for models that copy words, and a linearised tree has none; leave it out")

    def _read(self, problems: Problems) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        if self.path:
            return super()._read(problems)
        if not 2 <= self.trees <= 1_000_000:
            raise ConfigError(f"--data.trees must be from 2 to 1,000,000, not {self.trees}")
        pairs = [pair_of(tree) for tree in sentences(self.trees, random.seed_of(self.seed, "grammar"))]
        if self.validation_path:
            return pairs, self.read(self.validation_path, "", problems)
        train, validation = hold_out(np.zeros(len(pairs), dtype=np.int64), self.validation, problems)
        return [pairs[i] for i in train], [pairs[i] for i in validation]

    def read(self, path: str, target_path: str, problems: Problems) -> list[tuple[str, str]]:
        """Sentences and their trees."""
        if target_path:
            raise ConfigError("--data.target-path is for two texts, and a tree holds the words of its sentence; leave it out")
        pairs = []
        most = self.max_words or self.max_length
        for number, content in enumerate(read_parts(path, problems, SUFFIXES), 1):
            for raw, line in parse_all(content.decode(), f"{show(path)} (file {number})" if number > 1 else show(path)):
                tree, where = cleaned(raw), f"{show(path)}, file {number}, line {line}"
                size = 0 if tree is None else len(linearise(tree))
                if tree is None:
                    problems.add("trees without a word, left out", where)
                elif size > self.max_length or len(tree.words()) > most:
                    problems.add(f"trees of more than {most} words or {self.max_length} tokens, left out", where)
                else:
                    pairs.append(pair_of(tree))
        if not pairs:
            raise DataError(f"{show(path)}: holds no tree in brackets, such as (S (NP deep learning) (VP works))")
        return pairs

    def _tokenizer(self, train: list[tuple[str, str]], validation: list[tuple[str, str]]) -> TreeTokenizer:
        """Of the training sentences."""
        source = WordShapes.train("\n".join(sentence for sentence, _ in train), self.vocabulary, self.min_count)
        target = WhitespaceTokenizer.train(
            " ".join(token for _, tree in train for token in linearise(parse(tree), self.leaves == "tags")), 0
        )
        assert isinstance(target, WhitespaceTokenizer)
        return TreeTokenizer(source, target, self.leaves)


def pair_of(tree: Tree) -> tuple[str, str]:
    """A sentence and its tree in brackets."""
    return " ".join(tree.words()), written(tree)
