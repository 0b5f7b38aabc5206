"""Llama against transformers: the same logits from the same weights, in both directions."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.convert.parity import close, exported, imported, shaken
from weft.convert.llama import FAMILY
from weft.errors import CheckpointError

transformers = pytest.importorskip("transformers")
SIZES: list[dict[str, Any]] = [
    {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 32, "intermediate_size": 48},
    {"num_hidden_layers": 3, "num_attention_heads": 9, "num_key_value_heads": 3, "hidden_size": 72, "intermediate_size": 100},
    {"num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2, "hidden_size": 32, "intermediate_size": 64},
]
OTHERS: list[dict[str, Any]] = [
    {"tie_word_embeddings": True, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}, "rms_norm_eps": 1e-5},
    {"tie_word_embeddings": True, "rope_parameters": {"rope_type": "default", "rope_theta": 100000.0}, "rms_norm_eps": 1e-6},
    {"tie_word_embeddings": False, "rope_parameters": {"rope_type": "default", "rope_theta": 500.0}, "rms_norm_eps": 1e-5},
]


def reference(number: int) -> Any:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(vocab_size=101, max_position_embeddings=64, **SIZES[number], **OTHERS[number])
    return shaken(transformers.LlamaForCausalLM(config))


@pytest.mark.parametrize("number", range(3))
@torch.no_grad()
def test_logits_are_equal_in_both_directions(number: int) -> None:
    theirs = reference(number)
    ours = imported(theirs, FAMILY)
    ids, lengths = torch.randint(0, 101, (4, 64)), torch.tensor([64, 1, 17, 40])
    seen = torch.arange(64) < lengths[:, None]
    close(ours(ids), theirs(ids).logits)
    close(ours(ids)[seen], theirs(ids, attention_mask=seen.long()).logits[seen])
    again = exported(ours, FAMILY, theirs)
    close(ours(ids), again(ids).logits)


def test_what_we_do_not_have_is_refused() -> None:
    config = reference(0).config.to_dict()
    for changes in ({"attention_bias": True}, {"head_dim": 5}, {"hidden_act": "gelu"}, {"rope_parameters": {"rope_type": "llama3"}}):
        with pytest.raises(CheckpointError, match=r"config\.json"):
            FAMILY.settings({**config, **changes})
