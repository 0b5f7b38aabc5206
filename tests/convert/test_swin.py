"""Swin of transformers, beyond what `weft bench parity` compares: small maps, the inner model alone, what we do not have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.convert.parity import close, imported_files
from weft.benchmarks.references import CASES, KINDS, SWIN, reference
from weft.convert.swin import FAMILY
from weft.core.errors import CheckpointError

transformers = pytest.importorskip("transformers")
SMALL: dict[str, Any] = {**SWIN, "image_size": 16}


def images(model: Any) -> Tensor:
    return KINDS["swin"].reads.inputs(model.config)["image"]


@pytest.mark.parametrize(("side", "small"), [(12, 3), (8, 2), (3, 1)])
@torch.no_grad()
def test_a_map_smaller_than_the_window_uses_the_middle_of_the_table(side: int, small: int, tmp_path: Path) -> None:
    """As in the authors' code. Transformers makes the window smaller too, but not the table, and fails; so the test cuts its table."""
    theirs = reference("swin", SMALL | {"image_size": side})
    ours, image = imported_files(theirs, FAMILY, tmp_path), images(theirs)
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
    theirs = reference("swin", CASES["swin"]["never shifted"], "SwinModel")
    ours = imported_files(theirs, FAMILY, tmp_path)
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
