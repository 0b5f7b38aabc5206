"""Swin against transformers: the same logits from the same weights, in both directions, through the files of both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.convert.image_parity import check_both_directions, imported
from tests.convert.parity import close, shaken
from weft.convert.swin import FAMILY
from weft.errors import CheckpointError

transformers = pytest.importorskip("transformers")
SMALL: dict[str, Any] = {"patch_size": 2, "window_size": 4, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "num_labels": 5}
SIZES: dict[str, dict[str, Any]] = {
    "shifted, then one window": SMALL | {"image_size": 16},
    "never shifted": SMALL | {"image_size": 16, "depths": [1, 1], "num_channels": 1},
    "shifted twice, padded to the window": SMALL | {"image_size": (26, 19), "num_channels": 2, "mlp_ratio": 3.0},
    "odd sides, padded to patch, window and merge": SMALL
    | {"image_size": (21, 33), "patch_size": 4, "window_size": 3, "depths": [2, 1], "hidden_act": "gelu_pytorch_tanh"},
    "three stages of the published form": SMALL
    | {"image_size": 112, "patch_size": 4, "window_size": 7, "embed_dim": 48, "depths": [2, 2, 2], "num_heads": [3, 6, 12]},
}


def reference(size: dict[str, Any], kind: str = "SwinForImageClassification") -> Any:
    torch.manual_seed(0)
    return shaken(getattr(transformers, kind)(transformers.SwinConfig(**size)))


def images(model: Any) -> Tensor:
    channels, size = model.config.num_channels, model.config.image_size
    return torch.randn(3, channels, *(size if isinstance(size, list | tuple) else (size, size)))


@pytest.mark.parametrize("name", SIZES)
def test_logits_are_equal_in_both_directions(name: str, tmp_path: Path) -> None:
    theirs = reference(SIZES[name])
    check_both_directions(theirs, FAMILY, images(theirs), tmp_path)


@pytest.mark.parametrize(("side", "small"), [(12, 3), (8, 2), (3, 1)])
@torch.no_grad()
def test_a_map_smaller_than_the_window_uses_the_middle_of_the_table(side: int, small: int, tmp_path: Path) -> None:
    """As in the authors' code. Transformers makes the window smaller too, but not the table, and fails; so the test cuts its table."""
    theirs = reference(SMALL | {"image_size": side})
    ours, image = imported(theirs, FAMILY, tmp_path), images(theirs)
    grid = -(-side // 2)
    for stage, heads in enumerate((2, 4)):
        window = min(-(-grid // 2**stage), 4)
        for block in theirs.swin.encoder.layers[stage].blocks:
            table = block.attention.relative_position_bias.relative_position_bias_table.view(7, 7, heads)
            cut = type(block.attention.relative_position_bias)(heads, (window, window))
            cut.relative_position_bias_table.copy_(table[4 - window : 3 + window, 4 - window : 3 + window].reshape(-1, heads))
            block.attention.relative_position_bias = cut
    assert window == small
    close(ours(image), theirs(image).logits)


@torch.no_grad()
def test_the_inner_model_alone_is_read_too(tmp_path: Path) -> None:
    theirs = reference(SIZES["never shifted"], "SwinModel")
    ours = imported(theirs, FAMILY, tmp_path)
    image = images(theirs)
    close(ours.hidden(image), theirs(image).last_hidden_state)
    close(ours.hidden(image).mean(1), theirs(image).pooler_output)


def test_settings_of_the_published_tiny_model() -> None:
    settings = FAMILY.settings(transformers.SwinConfig(num_labels=1000).to_dict())
    with torch.device("meta"):
        assert sum(p.numel() for p in settings.build().parameters()) == 28_288_354


def test_what_we_do_not_have_is_refused() -> None:
    config = transformers.SwinConfig(**SMALL).to_dict()
    with pytest.raises(CheckpointError, match="use_absolute_embeddings is True"):
        FAMILY.settings({**config, "use_absolute_embeddings": True})
    with pytest.raises(CheckpointError, match=r"mlp_ratio is 3\.5"):
        FAMILY.settings({**config, "mlp_ratio": 3.5})
    with pytest.raises(CheckpointError, match="'depths' is missing"):
        FAMILY.settings({name: value for name, value in config.items() if name != "depths"})


def test_the_index_in_older_files_is_left_out() -> None:
    settings = FAMILY.settings(transformers.SwinConfig(**SMALL).to_dict())
    name = "swin.encoder.layers.0.blocks.1.attention.self.relative_position_index"
    assert not FAMILY.table(settings).to_own({name: torch.zeros(16, 16, dtype=torch.int64)})
