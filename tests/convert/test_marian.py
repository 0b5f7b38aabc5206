"""The Transformer against transformers' Marian: the same logits from the same weights, in both directions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from tests.convert.parity import close, imported, shaken
from weft.convert.marian import FAMILY
from weft.errors import CheckpointError
from weft.models.transformer import TransformerConfig

transformers = pytest.importorskip("transformers")
LENGTHS, TARGET_LENGTHS = torch.tensor([40, 1, 17, 39, 8]), torch.tensor([25, 3, 1, 24, 9])


def size(vocabulary: int, width: int, heads: int, inner: int, layers: tuple[int, int], activation: str, context: int) -> dict[str, Any]:
    return {
        "vocab_size": vocabulary,
        "pad_token_id": vocabulary - 1,
        "decoder_start_token_id": vocabulary - 1,
        "d_model": width,
        "encoder_attention_heads": heads,
        "decoder_attention_heads": heads,
        "encoder_ffn_dim": inner,
        "decoder_ffn_dim": inner,
        "encoder_layers": layers[0],
        "decoder_layers": layers[1],
        "activation_function": activation,
        "max_position_embeddings": context,
        "scale_embedding": True,
    }


SIZES = [
    size(100, 32, 4, 64, (2, 2), "swish", 512),
    size(60, 48, 3, 100, (3, 1), "relu", 64),
    size(50, 16, 2, 64, (1, 3), "gelu", 40),
]


@torch.no_grad()
def reference(given: dict[str, Any]) -> Any:
    torch.manual_seed(0)
    made = shaken(transformers.MarianMTModel(transformers.MarianConfig(**given)))
    for stack in (made.model.encoder, made.model.decoder):  # a parameter to PyTorch, but a fixed table
        stack.embed_positions.weight.copy_(stack.embed_positions.create_weight())
    made.final_logits_bias.normal_()
    return made


def within(lengths: Tensor, longest: int) -> Tensor:
    return torch.arange(longest) < lengths[:, None]


def of(theirs: Any, source: Tensor, target: Tensor) -> Tensor:
    """Their logits, padding masked on both sides, where the target is no padding."""
    masks = {"attention_mask": within(LENGTHS, 40).long(), "decoder_attention_mask": within(TARGET_LENGTHS, 25).long()}
    logits: Tensor = theirs(input_ids=source, decoder_input_ids=target, **masks).logits[within(TARGET_LENGTHS, 25)]
    return logits


@pytest.mark.parametrize("backend", ["fused", "explicit"])
@pytest.mark.parametrize("given", SIZES)
@torch.no_grad()
def test_logits_are_equal_in_both_directions(given: dict[str, Any], backend: str, tmp_path: Path) -> None:
    theirs = reference(given)
    ours = imported(theirs, FAMILY)
    for module in ours.modules():
        if hasattr(module, "attention_backend"):
            module.attention_backend = backend
    source, target = torch.randint(0, given["vocab_size"], (5, 40)), torch.randint(0, given["vocab_size"], (5, 25))
    logits = ours(source, LENGTHS, target)[within(TARGET_LENGTHS, 25)]
    close(logits, of(theirs, source, target))
    (tmp_path / "config.json").write_text(json.dumps(FAMILY.describe(ours.config)))
    save_file(FAMILY.table(ours.config).to_foreign(dict(ours.named_parameters())), tmp_path / "model.safetensors", {"format": "pt"})
    again, told = transformers.MarianMTModel.from_pretrained(tmp_path, output_loading_info=True)
    assert not told["missing_keys"]
    assert not told["unexpected_keys"]
    close(logits, of(again, source, target))


def test_a_missing_output_bias_is_zero() -> None:
    theirs = reference(SIZES[0])
    settings = FAMILY.settings(theirs.config.to_dict())
    tensors = {name: value for name, value in theirs.state_dict().items() if name != "final_logits_bias"}
    assert set(FAMILY.table(settings).to_own(theirs.state_dict())) - set(FAMILY.table(settings).to_own(tensors)) == {"head.bias"}
    assert "head.bias".startswith(FAMILY.fresh)
    assert not settings.build().state_dict()["head.bias"].any()


def test_what_we_do_not_have_is_refused() -> None:
    config = transformers.MarianConfig(**SIZES[0]).to_dict()
    for name, value in {"scale_embedding": False, "share_encoder_decoder_embeddings": False, "decoder_ffn_dim": 65}.items():
        with pytest.raises(CheckpointError, match=f"{name} is {value}"):
            FAMILY.settings({**config, name: value})
    for changed in ({"norm": "pre"}, {"memory": "all"}, {"interleaved": True}, {"tied": False}):
        with pytest.raises(CheckpointError, match=f"the model has {next(iter(changed))}"):
            FAMILY.describe(TransformerConfig(**{"interleaved": False, "output_bias": True, **changed}))  # type: ignore[arg-type]
