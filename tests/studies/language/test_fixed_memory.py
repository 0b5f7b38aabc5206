"""Strings through a memory of fixed size: what is measured, by hand, and the study on models that have hardly learned."""

from __future__ import annotations

import pytest
import torch

from weft.core.errors import ConfigError
from weft.data.tokenizers.special_tokens import Seq2SeqTokenizer
from weft.studies.language import fixed_memory
from weft.studies.language.fixed_memory import Settings, data_of, of_length, study, trained, where_it_stood

SMALL = Settings(longest=4, lengths=(1, 4), width=8, steps=3, pairs=300, examples=10, seeds=(1, 2))


def test_weights_along_a_diagonal() -> None:
    diagonal = torch.eye(6)[None]
    assert where_it_stood(diagonal, "copy") == 1.0 and where_it_stood(diagonal.flip(2), "reverse") == 1.0
    assert where_it_stood(diagonal, "reverse") == pytest.approx(2 / 6)  # the two letters in the middle stand beside each other
    assert where_it_stood(torch.full((1, 6, 6), 1 / 6), "copy") == pytest.approx(16 / 36)


def test_weights_sum_to_one_over_the_source_and_strings_have_one_length() -> None:
    data = data_of(SMALL, "reverse").build()
    assert isinstance(data.tokenizer, Seq2SeqTokenizer)
    held = of_length(SMALL, "reverse", data.tokenizer, 4)
    assert held.validation is not None and {len(source) for source, _ in held.validation.texts} == {4}  # type: ignore[attr-defined]
    model = trained(SMALL, data, "dot", 1)
    right, weights = fixed_memory.tested(SMALL, model, held)
    assert weights.shape == (10, 4, 4) and 0 <= right <= 1
    assert (weights.sum(-1) <= 1 + 1e-6).all() and (weights.sum(-1) > 0).all()  # what is left is on END
    assert not fixed_memory.tested(SMALL, trained(SMALL, data, "none", 1), held)[1].numel()


def test_attention_learns_to_copy_and_looks_along_the_diagonal() -> None:
    settings = Settings(longest=6, lengths=(6,), width=32, steps=150, pairs=4000, examples=50, seeds=(1,))
    data = data_of(settings, "copy").build()
    assert isinstance(data.tokenizer, Seq2SeqTokenizer)
    right, weights = fixed_memory.tested(settings, trained(settings, data, "dot", 1), of_length(settings, "copy", data.tokenizer, 6))
    assert right > 0.8 and where_it_stood(weights, "copy") > 0.8


def test_the_study() -> None:
    found = study(SMALL)
    assert [row[:2] for row in found.rows] == [(task, memory) for task in ("copy", "reverse") for memory in ("fixed memory", "attention")]
    assert found.figure.count("<figure") == 4 and "text/csv" in found.figure
    assert "2 seeds" in found.claim and found.rows[0][-1] == "–"
    with pytest.raises(ConfigError, match="expected seeds"):
        study(Settings(seeds=()))
