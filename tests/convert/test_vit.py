"""ViT of transformers, beyond what `weft bench parity` compares: the inner model alone, published sizes, what we do not have."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.convert.parity import close, imported_files
from weft.benchmarks.references import CASES, KINDS, reference
from weft.convert.vit import FAMILY
from weft.core.errors import CheckpointError

transformers = pytest.importorskip("transformers")
SMALL = CASES["vit"]["16 patches of 4 x 4"]


@torch.no_grad()
def test_the_inner_model_alone_is_read_too(tmp_path: Path) -> None:
    """Its pooler is left out, and the head that it lacks starts afresh."""
    theirs = reference("vit", SMALL, "ViTModel")
    ours = imported_files(theirs, FAMILY, tmp_path)
    image = KINDS["vit"].reads.inputs(theirs.config)["image"]
    close(ours.hidden(image), theirs(image).last_hidden_state)
    assert float(ours.head.weight.std()) == pytest.approx(0.02, rel=0.3)


def test_settings_of_the_published_base_model() -> None:
    labels = {str(number): f"class {number}" for number in range(1000)}
    config = transformers.ViTConfig(id2label=labels).to_dict()
    settings = FAMILY.settings(config)
    with torch.device("meta"):
        assert sum(p.numel() for p in settings.build().parameters()) == 86_567_656


def test_what_we_do_not_have_is_refused() -> None:
    config = transformers.ViTConfig(**SMALL).to_dict()
    with pytest.raises(CheckpointError, match="qkv_bias is False"):
        FAMILY.settings({**config, "qkv_bias": False})
    with pytest.raises(CheckpointError, match=r"patch_size is \[4, 2\]"):
        FAMILY.settings({**config, "patch_size": [4, 2]})
    with pytest.raises(CheckpointError, match="no activation 'mish'"):
        FAMILY.settings({**config, "hidden_act": "mish"})
    wave = FAMILY.config(image=(1, 40), classes=2, patch=4)  # type: ignore[call-arg]
    with pytest.raises(CheckpointError, match=r"reads \(1, 40\)"):
        FAMILY.describe(wave)
