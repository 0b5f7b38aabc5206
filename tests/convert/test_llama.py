"""Settings of Llama that weft does not have."""

from __future__ import annotations

import pytest

from weft.benchmarks.references import CASES
from weft.convert.llama import FAMILY
from weft.errors import CheckpointError

transformers = pytest.importorskip("transformers")


def test_what_we_do_not_have_is_refused() -> None:
    config = transformers.LlamaConfig(**next(iter(CASES["llama"].values()))).to_dict()
    for changes in (
        {"attention_bias": True},
        {"head_dim": 5},
        {"hidden_act": "gelu"},
        {"rope_parameters": {"rope_type": "llama3"}},
        {"rope_scaling": {"type": "linear", "factor": 2.0}},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}},
        {"partial_rotary_factor": 0.5},
    ):
        with pytest.raises(CheckpointError, match=r"config\.json"):
            FAMILY.settings({**config, **changes})
    assert FAMILY.settings({**config, "head_dim": None, "attention_bias": None}) == FAMILY.settings(config), "null is their default"
