"""GPT-2 of transformers, beyond what `weft bench parity` compares: the inner model alone, and what we do not have."""

from __future__ import annotations

import pytest

from weft.benchmarks.references import CASES, reference
from weft.convert.gpt2 import FAMILY
from weft.core.errors import CheckpointError

transformers = pytest.importorskip("transformers")
SMALL = CASES["gpt2"]["2 layers of 32"]


def test_the_inner_model_alone_is_read_too() -> None:
    theirs = reference("gpt2", SMALL)
    tensors = {name.removeprefix("transformer."): value for name, value in theirs.state_dict().items() if name != "lm_head.weight"}
    ours = FAMILY.settings(theirs.config.to_dict())
    assert set(FAMILY.table(ours).to_own(tensors)) == set(FAMILY.table(ours).to_own(theirs.state_dict()))


def test_what_we_do_not_have_is_refused() -> None:
    config = transformers.GPT2Config(**SMALL).to_dict()
    with pytest.raises(CheckpointError, match="scale_attn_by_inverse_layer_idx is True"):
        FAMILY.settings({**config, "scale_attn_by_inverse_layer_idx": True})
    with pytest.raises(CheckpointError, match="no activation 'mish'"):
        FAMILY.settings({**config, "activation_function": "mish"})
    with pytest.raises(CheckpointError, match="'n_head' is missing"):
        FAMILY.settings({name: value for name, value in config.items() if name != "n_head"})


def test_two_names_of_one_setting_agree() -> None:
    """Transformers lets num_attention_heads stand for n_head, and where both are there goes by the later one."""
    config = transformers.GPT2Config(**SMALL).to_dict()
    renamed = {**config, "n_head": None, "num_attention_heads": 2}
    assert FAMILY.settings(renamed) == FAMILY.settings(config) == FAMILY.settings({**config, "num_attention_heads": 2})
    with pytest.raises(CheckpointError, match="n_head 2 and num_attention_heads 4 name one thing, but differ"):
        FAMILY.settings({**config, "num_attention_heads": 4})
