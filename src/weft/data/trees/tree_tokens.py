"""Tokens of sentences and of their linearised trees; and the automaton that lets a model write trees only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor

from weft.core import registry
from weft.core.untrusted import checked
from weft.data.tokenizers.base import Tokenizer, WhitespaceTokenizer
from weft.data.tokenizers.special_tokens import END
from weft.data.tokenizers.two_sided import TwoSidedTokenizer
from weft.data.trees.brackets import UNTAGGED as WORD
from weft.data.trees.brackets import parse
from weft.data.trees.linearised import linearise, rendered

UNARY = 6
"""Constituents that may begin one after the other without a word between them: as many as in any of 3,914 trees of the Penn Treebank."""


Leaves = Literal["words", "tags", "placeholders"]
"""How a linearised tree has its words: themselves, their tags, or XX."""


class TreeTokenizer(TwoSidedTokenizer):
    """A source is a sentence; a target is the tree of its words in brackets, whose tokens are those of `linearised`.

    Where leaves are words, a target has the tokens that they have in the source, so that a decoder knows how far it is.
    """

    name = "trees"
    needs_all_tokens = True

    def __init__(self, source: Tokenizer, target: WhitespaceTokenizer, leaves: Leaves = "words", words: Sequence[str] | None = None):
        """words: of the sentence that is answered; None for the tokenizer of all."""
        super().__init__(source, target)
        self.leaves, self.words = leaves, None if words is None else tuple(words)

    def for_source(self, source: str) -> TreeTokenizer:
        assert isinstance(self.target, WhitespaceTokenizer)
        return TreeTokenizer(self.inner, self.target, self.leaves, source.split())

    def encode_target(self, text: str) -> np.ndarray:
        tree = parse(text)
        tokens = linearise(tree, self.leaves == "tags")
        ids = super().encode_target(" ".join(tokens))
        if self.leaves == "words":
            ids[np.array([token == WORD for token in tokens])] = self.encode(" ".join(tree.words()))
        return ids

    def said(self, ids: list[int]) -> list[str]:
        """The tokens of an answer, up to its END; a word that the sentence does not have at its place is <unk>."""
        assert isinstance(self.target, WhitespaceTokenizer)
        ids = ids[: ids.index(END)] if END in ids else ids
        tokens = [self.target.words[number - self.first_target] if number >= self.first_target else WORD for number in ids]
        if self.leaves == "words":
            right = iter(self.encode(" ".join(self.words or ())).tolist())
            for place, number in enumerate(ids):
                if number < self.first_target and next(right, None) != number:
                    tokens[place] = WhitespaceTokenizer.UNKNOWN
        return tokens

    def decode(self, ids: list[int]) -> str:
        """The tree in brackets; where the tokens make none, what they say."""
        return super().decode(ids) if self.words is None else rendered(self.said(ids), self.words)

    def constraint(self, source: Sequence[int]) -> TreeConstraint:
        """source: tokens of a sentence, END behind them or not."""
        return TreeConstraint(self, [number for number in source if number != END])

    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), "leaves": self.leaves}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> TreeTokenizer:
        source = registry.find("tokenizers", data["inner"]["type"]).from_json(data["inner"])
        target = WhitespaceTokenizer(checked(data, {"target": {"words": [str]}})["target"]["words"])
        leaves = checked(data, {"leaves": str})["leaves"]
        if leaves not in get_args(Leaves):
            raise ValueError(f"leaves must be one of {', '.join(get_args(Leaves))}, not {leaves!r}")
        return cls(source, target, leaves)


class TreeState(NamedTuple):
    """What of a tree has been written."""

    labels: tuple[int, ...] = ()
    """Tokens that began the constituents which are not closed."""
    words: int = 0
    begun: int = 0
    """Constituents that began since the last word or the last end of one."""
    done: bool = False


class TreeConstraint:
    """Brackets balance, no constituent is empty, and every word of the sentence is said once.

    A constituent begins only where there is a word for it. After UNARY of them a word has to come, and with little room left none begins,
    so that the tree can be closed.
    """

    def __init__(self, tokenizer: TreeTokenizer, source: Sequence[int]):
        """source: the tokens of the words of the sentence."""
        assert isinstance(tokenizer.target, WhitespaceTokenizer)
        known = tokenizer.target.words
        first, size = tokenizer.first_target, tokenizer.size
        self.source, self.literal = list(source), tokenizer.leaves == "words"
        self.opens = torch.zeros(size, dtype=torch.bool)
        self.leaves = torch.zeros(size, dtype=torch.bool)
        self.end = torch.zeros(size, dtype=torch.bool)
        self.end[END] = True
        self.closing: dict[int, int] = {}
        """The end of a constituent by its beginning; `ends` are all of them."""
        ids = {token: first + number for number, token in enumerate(known)}
        for token, number in ids.items():
            if token.startswith("(") and f"){token[1:]}" in ids:
                self.opens[number] = True
                self.closing[number] = ids[f"){token[1:]}"]
            elif token not in (WhitespaceTokenizer.UNKNOWN, WhitespaceTokenizer.END) and not token.startswith(("(", ")")):
                self.leaves[number] = True
        self.ends = frozenset(self.closing.values())

    def start(self) -> TreeState:
        return TreeState()

    def advance(self, state: TreeState, token: int) -> TreeState:
        if token in self.closing:
            return TreeState((*state.labels, token), state.words, state.begun + 1)
        if token == END:
            return state._replace(done=True)
        if token in self.ends:
            return TreeState(state.labels[:-1], state.words)
        return TreeState(state.labels, state.words + 1)

    def allowed(self, state: TreeState, room: int) -> Tensor:
        left, depth = len(self.source) - state.words, len(state.labels)
        if state.done or not (depth or left) or (not depth and state.words):
            return self.end
        found = torch.zeros_like(self.end)
        shortest = left + depth + 1  # what closes everything, END counted
        if left and state.begun < UNARY and (depth == 0 or shortest + 2 <= room or shortest > room):
            found |= self.opens
        if left and depth and self.literal:
            found[self.source[state.words]] = True
        elif left and depth:
            found |= self.leaves
        if depth and not state.begun and (depth > 1 or not left):
            found[self.closing[state.labels[-1]]] = True
        return found
