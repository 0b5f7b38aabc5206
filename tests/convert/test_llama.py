"""Settings of Llama that weft does not have."""

from __future__ import annotations

from typing import Any

import pytest

from weft.benchmarks.references import CASES, LLAMA
from weft.convert.llama import FAMILY
from weft.core.errors import CheckpointError

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
        {"is_causal": False},
    ):
        with pytest.raises(CheckpointError, match=r"config\.json"):
            FAMILY.settings({**config, **changes})
    assert FAMILY.settings({**config, "head_dim": None, "attention_bias": None}) == FAMILY.settings(config), "null is their default"


@pytest.mark.parametrize(
    "told",
    [
        {"rope_scaling": {"rope_type": "default", "rope_theta": 100.0}},
        {"rope_scaling": {"type": "default"}, "rope_theta": 300.0},
        {"rope_scaling": {"type": "default"}},
        {"rope_parameters": None, "rope_theta": 300.0},
        {"rope_parameters": {"rope_type": "default"}, "rope_theta": 300.0},
    ],
)
def test_the_base_of_rotary_positions_is_that_of_transformers(told: dict[str, Any]) -> None:
    config = transformers.LlamaConfig(**LLAMA, rope_parameters={"rope_theta": 500.0}).to_dict() | told
    ours: Any = FAMILY.settings(config)
    assert ours.rope_base == transformers.LlamaConfig.from_dict(config).rope_parameters["rope_theta"]
