"""GPT-2 against transformers: the same logits from the same weights, in both directions."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.convert.parity import close, exported, imported, shaken
from weft.convert.gpt2 import FAMILY
from weft.errors import CheckpointError

transformers = pytest.importorskip("transformers")
SIZES: list[dict[str, Any]] = [
    {"n_layer": 2, "n_head": 2, "n_embd": 32, "vocab_size": 100, "n_positions": 40},
    {"n_layer": 3, "n_head": 4, "n_embd": 64, "vocab_size": 257, "n_positions": 64, "n_inner": 96, "activation_function": "gelu"},
    {"n_layer": 1, "n_head": 3, "n_embd": 48, "vocab_size": 50, "n_positions": 33, "tie_word_embeddings": False},
]


def reference(size: dict[str, Any]) -> Any:
    torch.manual_seed(0)
    return shaken(transformers.GPT2LMHeadModel(transformers.GPT2Config(**size)))


@pytest.mark.parametrize("size", SIZES)
@torch.no_grad()
def test_logits_are_equal_in_both_directions(size: dict[str, Any]) -> None:
    theirs = reference(size)
    ours = imported(theirs, FAMILY)
    ids = torch.randint(0, size["vocab_size"], (4, size["n_positions"]))
    close(ours(ids), theirs(ids).logits)
    again = exported(ours, FAMILY, theirs)
    close(ours(ids), again(ids).logits)


@torch.no_grad()
def test_padded_rows_give_the_same_logits() -> None:
    theirs = reference(SIZES[0])
    ours = imported(theirs, FAMILY)
    ids, lengths = torch.randint(0, 100, (5, 40)), torch.tensor([40, 1, 17, 39, 8])
    seen = torch.arange(40) < lengths[:, None]
    logits = theirs(ids, attention_mask=seen.long()).logits  # padding on the right: a causal model does not see it
    close(ours(ids)[seen], logits[seen])


def test_the_inner_model_alone_is_read_too() -> None:
    theirs = reference(SIZES[0])
    tensors = {name.removeprefix("transformer."): value for name, value in theirs.state_dict().items() if name != "lm_head.weight"}
    ours = FAMILY.settings(theirs.config.to_dict())
    assert set(FAMILY.table(ours).to_own(tensors)) == set(FAMILY.table(ours).to_own(theirs.state_dict()))


def test_what_we_do_not_have_is_refused() -> None:
    config = transformers.GPT2Config(**SIZES[0]).to_dict()
    with pytest.raises(CheckpointError, match="scale_attn_by_inverse_layer_idx is True"):
        FAMILY.settings({**config, "scale_attn_by_inverse_layer_idx": True})
    with pytest.raises(CheckpointError, match="no activation 'mish'"):
        FAMILY.settings({**config, "activation_function": "mish"})
    with pytest.raises(CheckpointError, match="'n_head' is missing"):
        FAMILY.settings({name: value for name, value in config.items() if name != "n_head"})
