"""Swin as Hugging Face writes it. The names are those of its files; its modules have had others since version 5."""

from __future__ import annotations

from typing import Any

from weft.convert.family import ACTIVATIONS, Family, activation, need, setting
from weft.convert.labels import count
from weft.convert.table import Ignore, Join, Rename, Row, Table
from weft.convert.vit import describe_images, image_shape, patch
from weft.core.errors import CheckpointError
from weft.models.vision.swin import SwinConfig


def settings(config: dict[str, Any]) -> SwinConfig:
    need(config, qkv_bias=True, use_absolute_embeddings=False, layer_norm_eps=1e-5)
    ratio = config.get("mlp_ratio", 4)
    if ratio != int(ratio):
        raise CheckpointError(f"config.json: mlp_ratio is {ratio!r}; weft's feed-forward layers are a whole multiple of the width")
    return SwinConfig(
        image=image_shape(config),
        classes=count(config),
        patch=patch(config),
        window=setting(config, "window_size"),
        layers=tuple(setting(config, "depths")),
        heads=tuple(setting(config, "num_heads", "num_attention_heads")),
        width=setting(config, "embed_dim"),
        mlp_ratio=int(ratio),
        activation=activation(config.get("hidden_act", "gelu")),  # type: ignore[arg-type]
        dropout=config.get("hidden_dropout_prob", 0.0),
        attention_dropout=config.get("attention_probs_dropout_prob", 0.0),
        drop_path=config.get("drop_path_rate", 0.1),
    )


def describe(c: SwinConfig) -> dict[str, Any]:
    return {
        "architectures": ["SwinForImageClassification"],
        "model_type": "swin",
        **describe_images(c),
        "window_size": c.window,
        "depths": list(c.layers),
        "num_heads": list(c.heads),
        "embed_dim": c.width,
        "mlp_ratio": float(c.mlp_ratio),
        "hidden_act": ACTIVATIONS[c.activation],
        "hidden_dropout_prob": c.dropout,
        "attention_probs_dropout_prob": c.attention_dropout,
        "drop_path_rate": c.drop_path,
        "layer_norm_eps": 1e-5,
        "qkv_bias": True,
        "use_absolute_embeddings": False,
    }


def table(c: SwinConfig) -> Table:
    block, own_block = "swin.encoder.layers.{i}.blocks.{j}.", "stages.{i}.{j}."
    rows: list[Row] = [
        Rename(f"{block}attention.self.relative_position_bias_table", f"{own_block}attention.bias.weight"),
        Ignore(f"{block}attention.self.relative_position_index"),  # follows from the window
        Rename("swin.encoder.layers.{i}.downsample.reduction.weight", "merges.{i}.reduce.weight"),
    ]
    renamed = {
        "swin.embeddings.patch_embeddings.projection": "patches",
        "swin.embeddings.norm": "patch_norm",
        f"{block}layernorm_before": f"{own_block}norm1",
        f"{block}layernorm_after": f"{own_block}norm2",
        f"{block}attention.output.dense": f"{own_block}attention.out",
        f"{block}intermediate.dense": f"{own_block}feedforward.up",
        f"{block}output.dense": f"{own_block}feedforward.down",
        "swin.encoder.layers.{i}.downsample.norm": "merges.{i}.norm",
        "swin.layernorm": "norm",
        "classifier": "head",
    }
    for part in ("weight", "bias"):
        rows += [Rename(f"{foreign}.{part}", f"{own}.{part}") for foreign, own in renamed.items()]
        parts = tuple(f"{block}attention.self.{name}.{part}" for name in ("query", "key", "value"))
        rows.append(Join(parts, f"{own_block}attention.qkv.{part}"))
    return Table(rows, prefix="swin.")


FAMILY = Family("swin/images", SwinConfig, settings, describe, table, fresh=("head.",))
