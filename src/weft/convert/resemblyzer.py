"""Resemblyzer's speaker encoder: the LSTMs of pretrained.pt, which PyTorch reads as data only (weights_only), running none of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from weft.convert.family import Family, setting
from weft.convert.folder import Foreign
from weft.convert.table import Rename, Table
from weft.core import untrusted
from weft.core.errors import CheckpointError
from weft.core.untrusted import parsing
from weft.models.audio.speaker_encoder import SpeakerEncoderConfig

WEIGHTS = "pretrained.pt"
LARGEST = 1 << 30


def found(path: Path) -> bool:
    """Whether a folder holds the weights of Resemblyzer."""
    return (path / WEIGHTS).is_file() and (path / "voice_encoder.py").is_file()


def read(folder: Path) -> Foreign:
    """A folder of the package, of which nothing but the weights is read."""
    path = folder / WEIGHTS
    with parsing(path, CheckpointError, ": holds no weights of Resemblyzer"), untrusted.open_regular(path) as file:
        if os.fstat(file.fileno()).st_size > LARGEST:
            raise ValueError(f"larger than {LARGEST >> 30} GiB")
        content = torch.load(file, map_location="cpu", weights_only=True)
        tensors = dict(content["model_state"])
        if not all(isinstance(name, str) and isinstance(value, Tensor) for name, value in tensors.items()):
            raise ValueError("model_state holds more than tensors")
        first, linear = tensors["lstm.weight_ih_l0"], tensors["linear.weight"]
        layers = sum(name.startswith("lstm.weight_ih_l") for name in tensors)
        sizes = {"mels": first.size(1), "width": first.size(0) // 4, "layers": layers, "embedding": linear.size(0)}
    return Foreign({"model_type": "resemblyzer", **sizes}, tensors)


def settings(config: dict[str, Any]) -> SpeakerEncoderConfig:
    return SpeakerEncoderConfig(**{name: setting(config, name) for name in ("mels", "width", "layers", "embedding")})


def describe(c: SpeakerEncoderConfig) -> dict[str, Any]:
    raise CheckpointError("weft writes no pickled weights; the run itself can be loaded and trained further")


def table(c: SpeakerEncoderConfig) -> Table:
    kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    rows = [Rename(f"lstm.{kind}_l{{i}}", f"lstm.layers.{{i}}.{kind}") for kind in kinds]
    rows += [Rename(f"linear.{kind}", f"linear.{kind}") for kind in ("weight", "bias")]
    return Table([*rows, Rename("similarity_weight", "scale"), Rename("similarity_bias", "offset")])


FAMILY = Family("speaker/voices", SpeakerEncoderConfig, settings, describe, table)
