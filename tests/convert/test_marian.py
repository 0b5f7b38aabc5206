"""Marian of transformers, beyond what `weft bench parity` compares: attention step by step, a missing bias, what we do not have."""

from __future__ import annotations

import pytest

from tests.convert.parity import imported
from tests.convert.test_t5 import explicit_attention_is_close
from weft.benchmarks.references import CASES, reference
from weft.convert.marian import FAMILY
from weft.core.errors import CheckpointError
from weft.models.language.transformer import TransformerConfig

transformers = pytest.importorskip("transformers")
SMALL = CASES["marian"]["2 + 2 layers of 32, swish"]


@pytest.mark.parametrize("name", CASES["marian"])
def test_explicit_attention_gives_the_same_logits(name: str) -> None:
    theirs = reference("marian", CASES["marian"][name])
    explicit_attention_is_close(imported(theirs, FAMILY), theirs)


def test_a_missing_output_bias_is_zero() -> None:
    theirs = reference("marian", SMALL)
    settings = FAMILY.settings(theirs.config.to_dict())
    tensors = {name: value for name, value in theirs.state_dict().items() if name != "final_logits_bias"}
    assert set(FAMILY.table(settings).to_own(theirs.state_dict())) - set(FAMILY.table(settings).to_own(tensors)) == {"head.bias"}
    assert "head.bias".startswith(FAMILY.fresh)
    assert not settings.build().state_dict()["head.bias"].any()


def test_what_we_do_not_have_is_refused() -> None:
    config = transformers.MarianConfig(**SMALL).to_dict()
    for name, value in {"scale_embedding": False, "share_encoder_decoder_embeddings": False, "decoder_ffn_dim": 65}.items():
        with pytest.raises(CheckpointError, match=f"{name} is {value}"):
            FAMILY.settings({**config, name: value})
    for changed in ({"norm": "pre"}, {"encoder_output": "all"}, {"interleaved_positions": True}, {"tie_embeddings": False}):
        with pytest.raises(CheckpointError, match=f"the model has {next(iter(changed))}"):
            FAMILY.describe(TransformerConfig(**{"interleaved_positions": False, "output_bias": True, **changed}))  # type: ignore[arg-type]
