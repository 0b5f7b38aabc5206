"""A reference model and ours with the same weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from weft.benchmarks.quality.parity import TOLERANCE
from weft.convert.family import Family
from weft.training.checkpoint.checkpoint import load_weights


def imported(reference: Any, family: Family) -> Any:
    """Our model with a reference's settings and weights."""
    return made(family, reference.config.to_dict(), reference.state_dict())


def imported_files(reference: Any, family: Family, folder: Path) -> Any:
    """The same through its files, where a model of images has other names than its modules have."""
    reference.save_pretrained(folder / "theirs")
    config = json.loads((folder / "theirs" / "config.json").read_text())
    return made(family, config, load_file(folder / "theirs" / "model.safetensors"))


def made(family: Family, config: dict[str, Any], weights: dict[str, Tensor]) -> Any:
    settings = family.settings(config)
    model = settings.build()
    tensors = family.table(settings).to_own(weights)
    fresh = {name: value for name, value in model.state_dict().items() if name.startswith(family.fresh) and name not in tensors}
    load_weights(model, {**tensors, **fresh}, "reference")
    return model.eval()


def close(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    difference = float((ours - theirs).abs().max())
    assert difference <= TOLERANCE, f"{difference} apart"
