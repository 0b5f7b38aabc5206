"""Settings of GPT-1 that weft does not have."""

from __future__ import annotations

import pytest

from weft.benchmarks.references import CASES
from weft.convert.openai_gpt import FAMILY
from weft.core.errors import CheckpointError

transformers = pytest.importorskip("transformers")


def test_what_we_do_not_have_is_refused() -> None:
    config = transformers.OpenAIGPTConfig(**next(iter(CASES["openai-gpt"].values()))).to_dict()
    for changes in ({"afn": "relu"}, {"layer_norm_epsilon": 0.1}, {"tie_word_embeddings": False}):
        with pytest.raises(CheckpointError, match=r"config\.json"):
            FAMILY.settings({**config, **changes})
