from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import torch
from hypothesis import given

from weft.data.base import Problems
from weft.data.text.packing import Packed, Texts, pack, truncated_lengths
from weft.data.text.sentence_pairs import CLS, PAD, SEP, BERTWordTokenizer

TOKENS = BERTWordTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"{side}{i}" for side in "ab" for i in range(40))])


def packed(*texts: tuple[str, ...], context: int = 12, problems: Problems | None = None) -> Packed:
    return pack([Texts(text, f"f:{i}") for i, text in enumerate(texts, 1)], TOKENS, context, problems or Problems())


def words(side: str, number: int) -> str:
    return " ".join(f"{side}{i}" for i in range(number))


def longest_first(first: list[int], second: list[int], room: int) -> tuple[list[int], list[int]]:
    """As BERT's own code does it, one token at a time."""
    first, second = list(first), list(second)
    while len(first) + len(second) > room:
        (first if len(first) > len(second) else second).pop()
    return first, second


def test_a_text_and_a_pair() -> None:
    batch = packed((words("a", 2),), (words("a", 3), words("b", 2)), ("", "b0")).rows(torch.tensor([1, 0, 2]))
    a, b = TOKENS.encode(words("a", 3)).tolist(), TOKENS.encode(words("b", 2)).tolist()
    assert batch["ids"].tolist() == [
        [CLS, *a, SEP, *b, SEP],
        [CLS, *a[:2], SEP, PAD, PAD, PAD, PAD],
        [CLS, SEP, b[0], SEP, PAD, PAD, PAD, PAD],
    ]
    assert batch["segments"].tolist() == [[0, 0, 0, 0, 0, 1, 1, 1], [0] * 8, [0, 0, 1, 1, 0, 0, 0, 0]]
    assert batch["lengths"].tolist() == [8, 4, 4]
    assert {part.dtype for part in batch.values()} == {torch.int64}


@given(st.integers(0, 40), st.integers(0, 40), st.integers(8, 60))
def test_the_longer_text_is_cut_first(first: int, second: int, context: int) -> None:
    problems = Problems()
    batch = packed((words("a", first), words("b", second)), context=context, problems=problems).rows(torch.tensor([0]))
    a, b = longest_first(TOKENS.encode(words("a", first)).tolist(), TOKENS.encode(words("b", second)).tolist(), context - 3)
    assert batch["ids"][0].tolist() == [CLS, *a, SEP, *b, SEP]
    assert batch["segments"][0].tolist() == [0] * (len(a) + 2) + [1] * (len(b) + 1)
    assert batch["lengths"].tolist() == [len(a) + len(b) + 3]
    assert bool(problems.counts) == (first + second > context - 3)


@given(st.integers(0, 40), st.integers(8, 60))
def test_a_single_text_is_cut_at_its_end(size: int, context: int) -> None:
    batch = packed((words("a", size),), context=context).rows(torch.tensor([0]))
    assert batch["ids"][0].tolist() == [CLS, *TOKENS.encode(words("a", min(size, context - 2))).tolist(), SEP]
    assert not batch["segments"].any()


def test_what_is_kept_adds_up() -> None:
    assert truncated_lengths([10, 10], 5) == [3, 2]
    assert truncated_lengths([1, 10], 5) == [1, 4]
    assert truncated_lengths([10, 1], 5) == [4, 1]
    assert truncated_lengths([2, 2], 5) == [2, 2]
    assert truncated_lengths([9], 5) == [5]


def test_texts_that_are_cut_are_counted_with_their_place() -> None:
    problems = Problems()
    packed((words("a", 30),), (words("a", 3),), (words("a", 11),), problems=problems)
    assert problems.lines() == ["2 × texts truncated to 12 tokens: f:1, f:3"]


def test_no_text_at_all() -> None:
    assert len(packed()) == 0


def test_a_sequence_does_not_depend_on_the_others() -> None:
    texts = [(words("a", i % 7), words("b", i % 5)) for i in range(20)]
    together = packed(*texts).rows(torch.arange(20))
    for i, text in enumerate(texts):
        alone = packed(text).rows(torch.tensor([0]))
        size = int(alone["lengths"])
        for name in ("ids", "segments"):
            assert np.array_equal(alone[name][0], together[name][i, :size])
            assert not together[name][i, size:].any()
