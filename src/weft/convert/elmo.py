"""ELMo as bilm-tf writes it: options.json and weights in HDF5 (Peters et al., 2018, arXiv:1802.05365).

Its LSTMs have the gates i, g, f, o, one bias of which that of f lacks 1, and the weights of inputs and state in one matrix.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from weft.convert import hdf5
from weft.convert.family import Family, need, setting
from weft.convert.folder import Foreign, read_json
from weft.convert.table import Rename, Row, Table
from weft.core.errors import CheckpointError
from weft.data.tokenizers.word_characters import BiLMTokenizer
from weft.models.language.elmo import ELMoConfig

OPTIONS = "options.json"
UNTRAINED = [BiLMTokenizer.UNKNOWN, "<S>", "</S>"]
"""Words of the softmax, which the files do not hold: more are learned where it is trained further."""
GATES = (0, 2, 1, 3)
"""Theirs in our order: i, f, g, o."""


def found(path: Path) -> bool:
    """Whether a folder holds a model of bilm-tf."""
    return (path / OPTIONS).is_file() and any(path.glob("*weights*.hdf5"))


def read(folder: Path) -> Foreign:
    """A folder with options.json and one file of weights."""
    files = sorted(folder.glob("*weights*.hdf5"))
    if len(files) != 1:
        raise CheckpointError(f"{folder}: holds {len(files)} files of weights (*weights*.hdf5); one is expected")
    return Foreign({**read_json(folder / OPTIONS), "model_type": "elmo"}, hdf5.read(files[0]), BiLMTokenizer(UNTRAINED))


def settings(config: dict[str, Any]) -> ELMoConfig:
    lstm, characters = setting(config, "lstm"), setting(config, "char_cnn")
    need(characters, max_characters_per_token=50, activation="relu")
    need(lstm, use_skip_connections=True)
    if characters.get("n_characters", 262) not in (261, 262):
        raise CheckpointError(f"options.json: n_characters is {characters['n_characters']!r}; weft's ELMo reads the 262 of bilm-tf")
    widths, filters = zip(*setting(characters, "filters"), strict=True)
    return ELMoConfig(
        words=len(UNTRAINED),
        character_width=setting(setting(characters, "embedding"), "dim"),
        kernels=tuple(widths),
        filters=tuple(filters),
        highways=setting(characters, "n_highway"),
        layers=setting(lstm, "n_layers"),
        width=setting(lstm, "dim"),
        projection=setting(lstm, "projection_dim"),
        cell_clip=lstm.get("cell_clip") or 0.0,
        projection_clip=lstm.get("proj_clip") or 0.0,
    )


def describe(c: ELMoConfig) -> dict[str, Any]:
    raise CheckpointError("weft writes no HDF5; the run itself can be loaded and trained further")


class ELMoTable(Table):
    """Theirs have other shapes: filters (1, width, E, F), and an LSTM's one matrix and one bias."""

    def to_own(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        rows: dict[str, Tensor] = {}
        for name, value in super().to_own(tensors).items():
            own, _, kind = name.rpartition(".")
            if kind == "filters":
                rows[f"{own}.weight"] = value.squeeze(0).permute(2, 1, 0).contiguous()
            elif kind == "matrix":
                inputs = value.size(0) // 2
                rows[f"{own}.weight_ih"], rows[f"{own}.weight_hh"] = (in_order(part.T) for part in (value[:inputs], value[inputs:]))
            elif kind == "bias" and "_layers." in own:
                bias = in_order(value)
                width = len(bias) // 4
                bias[width : 2 * width] += 1.0  # TensorFlow adds it when it computes
                rows[f"{own}.bias_ih"], rows[f"{own}.bias_hh"] = torch.zeros_like(bias), bias
            elif name == "token.embed.weight":
                rows[name] = torch.cat([value.new_zeros(1, value.size(1)), value])
            else:
                rows[name] = value
        return rows


def in_order(gates: Tensor) -> Tensor:
    """Gates (4H, …) in our order."""
    parts = gates.chunk(4)
    return torch.cat([parts[number] for number in GATES]).contiguous()


def table(c: ELMoConfig) -> Table:
    rows: list[Row] = [
        Rename("char_embed", "token.embed.weight"),
        Rename("CNN/W_cnn_{i}", "token.convolutions.{i}.filters"),
        Rename("CNN/b_cnn_{i}", "token.convolutions.{i}.bias"),
        Rename("CNN_proj/W_proj", "token.projection.weight", transpose=True),
        Rename("CNN_proj/b_proj", "token.projection.bias"),
    ]
    for theirs, ours in (("transform", "transform"), ("carry", "gate")):
        rows.append(Rename(f"CNN_high_{{i}}/W_{theirs}", f"token.highways.{{i}}.{ours}.weight", transpose=True))
        rows.append(Rename(f"CNN_high_{{i}}/b_{theirs}", f"token.highways.{{i}}.{ours}.bias"))
    for number, direction in enumerate(("forward", "backward")):
        cell, ours = f"RNN_{number}/RNN/MultiRNNCell/Cell{{i}}/LSTMCell", f"{direction}_layers.{{i}}"
        rows.append(Rename(f"{cell}/W_0", f"{ours}.matrix"))
        rows.append(Rename(f"{cell}/B", f"{ours}.bias"))
        rows.append(Rename(f"{cell}/W_P_0", f"{ours}.weight_hr", transpose=True))
    return ELMoTable(rows)


FAMILY = Family("elmo/pretrain", ELMoConfig, settings, describe, table, fresh=("softmax.",))
