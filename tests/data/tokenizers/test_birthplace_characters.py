from __future__ import annotations

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

from weft.core.errors import DataError
from weft.data.base import IGNORE
from weft.data.tokenizers import base as tokenizers
from weft.data.tokenizers.base import CharacterTokenizer
from weft.data.tokenizers.birthplace_characters import (
    MASK,
    MASK_CHARACTER,
    PAD,
    PAD_CHARACTER,
    BirthplaceCharacters,
    MaskedSpan,
    PackedRows,
    as_birthplace_characters,
    refuse_special_characters,
    shifted,
)

TEXTS = st.text(st.characters(exclude_characters=PAD_CHARACTER + MASK_CHARACTER, exclude_categories=["Cs"]), max_size=30)


def test_the_marks_come_first_then_the_characters_in_order() -> None:
    tokenizer = BirthplaceCharacters.train("banana é\n😀")
    assert isinstance(tokenizer, BirthplaceCharacters)
    assert (PAD_CHARACTER, MASK_CHARACTER) == ("\u25a1", "\u2047")
    assert tokenizer.characters == "\u25a1\u2047\n abné😀"
    assert tokenizer.size == 9
    assert tokenizer.encode("\u2047ab\u25a1😀\n").tolist() == [1, 4, 5, 0, 8, 2]
    assert tokenizer.decode([0, 1, 4]) == "\u25a1\u2047a"


@given(TEXTS)
def test_text_comes_back_also_after_saving(text: str) -> None:
    tokenizer = BirthplaceCharacters.train(text)
    again = tokenizers.load(tokenizers.dump(tokenizer))
    assert isinstance(again, BirthplaceCharacters)
    assert again.to_json() == tokenizer.to_json()
    marked = PAD_CHARACTER + text + MASK_CHARACTER
    assert again.decode(again.encode(marked).tolist()) == marked
    assert sorted(set(again.encode(marked).tolist())) == list(range(again.size))


def test_what_cannot_be_told_is_one_sentence() -> None:
    with pytest.raises(DataError, match=r"line 2 of the text holds '⁇' \(U\+2047\), which stands for the masked part; remove it from"):
        BirthplaceCharacters.train("a\nb⁇")
    with pytest.raises(DataError, match=r"line 1 of the text holds '□' \(U\+25A1\), which stands for padding"):
        refuse_special_characters("a □\nb")
    assert BirthplaceCharacters.train("ab").unknown("az") == "z"
    with pytest.raises(DataError, match="tokenizer cannot be read"):
        tokenizers.load(b'{"type": "birthplace_characters", "characters": "ab"}')
    with pytest.raises(DataError, match="trained on 'characters' tokens"):
        as_birthplace_characters(CharacterTokenizer("ab"))
    assert as_birthplace_characters(None) is None


def arranged(
    texts: list[str], length: list[int], before: list[int], hidden: list[int], context: int, final_mask: bool = False
) -> list[str]:
    tokenizer = BirthplaceCharacters.train("abcdefghijkl")
    rows = PackedRows.pack(texts, tokenizer)
    used, start, piece = (torch.tensor(part, dtype=rows.sizes.dtype) for part in (length, before, hidden))
    return [
        tokenizer.decode(row) for row in rows.move_hidden_to_end(MaskedSpan(rows.starts, used, start, piece), context, final_mask).tolist()
    ]


def test_the_hidden_piece_moves_to_the_end() -> None:
    texts = ["abcdefgh", "abc", "abcdef", "", "ijkl"]
    length, before, hidden = [8, 3, 4, 0, 4], [2, 1, 0, 0, 4], [3, 1, 2, 0, 0]
    assert arranged(texts, length, before, hidden, 11) == [
        "ab⁇fgh⁇cde□",
        "a⁇c⁇b□□□□□□",
        "⁇cd⁇ab□□□□□",
        "⁇⁇□□□□□□□□□",
        "ijkl⁇⁇□□□□□",
    ]
    assert arranged(texts, length, before, hidden, 11, final_mask=True) == [
        "ab⁇fgh⁇cde⁇",
        "a⁇c⁇b⁇□□□□□",
        "⁇cd⁇ab⁇□□□□",
        "⁇⁇□□□□□□□□□",
        "ijkl⁇⁇□□□□□",
    ]


@given(st.data())
def test_any_piece_of_any_row_can_be_put_back(data: st.DataObject) -> None:
    texts = data.draw(st.lists(st.text("abcdefghijkl", max_size=20), min_size=1, max_size=5))
    length = [data.draw(st.integers(0, len(text))) for text in texts]
    hidden = [data.draw(st.integers(0, size)) for size in length]
    before = [data.draw(st.integers(0, size - piece)) for size, piece in zip(length, hidden, strict=True)]
    context = max(length) + 3 + data.draw(st.integers(0, 3))
    for final_mask in (False, True):
        found = arranged(texts, length, before, hidden, context, final_mask)
        for row, text, size, start, piece in zip(found, texts, length, before, hidden, strict=True):
            prefix, suffix, *moved = row.rstrip(PAD_CHARACTER).split(MASK_CHARACTER)
            assert len(row) == context
            assert len(prefix) == start
            assert moved == ([text[start : start + piece], ""] if final_mask and piece else [text[start : start + piece]])
            assert prefix + moved[0] + suffix == text[:size]


def test_targets_are_one_ahead_and_never_padding() -> None:
    sequence = torch.tensor([[5, MASK, 6, MASK, 7, PAD], [5, 6, 7, MASK, 8, 9]])
    batch = shifted(sequence)
    assert batch["ids"].tolist() == sequence[:, :-1].tolist()
    assert batch["targets"].tolist() == [[MASK, 6, MASK, 7, IGNORE], [6, 7, MASK, 8, 9]]
    assert shifted(sequence, torch.tensor([4, 2]))["targets"].tolist() == [[IGNORE] * 3 + [7, IGNORE], [IGNORE, 7, MASK, 8, 9]]
