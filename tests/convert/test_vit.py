"""ViT against transformers: the same logits from the same weights, in both directions, through the files of both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.convert.image_parity import check_both_directions, imported
from tests.convert.parity import close, shaken
from weft.convert.vit import FAMILY
from weft.errors import CheckpointError

transformers = pytest.importorskip("transformers")
SMALL: dict[str, Any] = {"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 32, "intermediate_size": 64}
SIZES: list[dict[str, Any]] = [
    SMALL | {"image_size": 16, "patch_size": 4, "num_labels": 5},
    SMALL | {"image_size": (9, 14), "patch_size": 3, "num_channels": 4, "num_labels": 3, "hidden_act": "gelu_pytorch_tanh"},
    SMALL | {"image_size": 15, "patch_size": 5, "num_channels": 1, "num_hidden_layers": 3, "intermediate_size": 50, "layer_norm_eps": 1e-6},
    {"image_size": 64, "patch_size": 16, "num_hidden_layers": 4, "num_attention_heads": 3, "hidden_size": 192, "intermediate_size": 768},
]


def reference(size: dict[str, Any], kind: str = "ViTForImageClassification") -> Any:
    torch.manual_seed(0)
    return shaken(getattr(transformers, kind)(transformers.ViTConfig(**size)))


def images(model: Any) -> torch.Tensor:
    channels, size = model.config.num_channels, model.config.image_size
    return torch.randn(3, channels, *(size if isinstance(size, list | tuple) else (size, size)))


@pytest.mark.parametrize("size", SIZES)
def test_logits_are_equal_in_both_directions(size: dict[str, Any], tmp_path: Path) -> None:
    theirs = reference(size)
    check_both_directions(theirs, FAMILY, images(theirs), tmp_path)


@torch.no_grad()
def test_the_inner_model_alone_is_read_too(tmp_path: Path) -> None:
    """Its pooler is left out, and the head that it lacks starts afresh."""
    theirs = reference(SIZES[0], "ViTModel")
    ours = imported(theirs, FAMILY, tmp_path)
    image = images(theirs)
    close(ours.hidden(image), theirs(image).last_hidden_state)
    assert float(ours.head.weight.std()) == pytest.approx(0.02, rel=0.3)


def test_settings_of_the_published_base_model() -> None:
    labels = {str(number): f"class {number}" for number in range(1000)}
    config = transformers.ViTConfig(id2label=labels).to_dict()
    settings = FAMILY.settings(config)
    with torch.device("meta"):
        assert sum(p.numel() for p in settings.build().parameters()) == 86_567_656


def test_what_we_do_not_have_is_refused() -> None:
    config = transformers.ViTConfig(**SIZES[0]).to_dict()
    with pytest.raises(CheckpointError, match="qkv_bias is False"):
        FAMILY.settings({**config, "qkv_bias": False})
    with pytest.raises(CheckpointError, match=r"patch_size is \[4, 2\]"):
        FAMILY.settings({**config, "patch_size": [4, 2]})
    with pytest.raises(CheckpointError, match="no activation 'mish'"):
        FAMILY.settings({**config, "hidden_act": "mish"})
    wave = FAMILY.config(image=(1, 40), classes=2, patch=4)  # type: ignore[call-arg]
    with pytest.raises(CheckpointError, match=r"reads \(1, 40\)"):
        FAMILY.describe(wave)
