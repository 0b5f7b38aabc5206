"""ViT as Hugging Face writes it. The names are those of its files; its modules have had others since version 5."""

from __future__ import annotations

from typing import Any

from weft.convert.family import ACTIVATIONS, Family, activation, need, setting
from weft.convert.labels import count
from weft.convert.table import Ignore, Join, Rename, Row, Table
from weft.core.errors import CheckpointError
from weft.models.vision.vit import ViTConfig


def settings(config: dict[str, Any]) -> ViTConfig:
    need(config, qkv_bias=True)
    return ViTConfig(
        image=image_shape(config),
        classes=count(config),
        patch=patch(config),
        layers=setting(config, "num_hidden_layers"),
        heads=setting(config, "num_attention_heads"),
        width=setting(config, "hidden_size"),
        ffn_width=setting(config, "intermediate_size"),
        activation=activation(config.get("hidden_act", "gelu")),  # type: ignore[arg-type]
        dropout=config.get("hidden_dropout_prob", 0.0),
        attention_dropout=config.get("attention_probs_dropout_prob", 0.0),
        eps=config.get("layer_norm_eps", 1e-12),
    )


def image_shape(config: dict[str, Any]) -> tuple[int, int, int]:
    """(channels, height, width); they write one number for a square."""
    size = config.get("image_size", 224)
    height, width = size if isinstance(size, (list, tuple)) else (size, size)
    return config.get("num_channels", 3), height, width


def patch(config: dict[str, Any]) -> int:
    """The side of a patch; they write two numbers where it is not a square."""
    size = setting(config, "patch_size")
    sides = size if isinstance(size, (list, tuple)) else [size]
    if len(set(sides)) != 1:
        raise CheckpointError(f"config.json: patch_size is {size!r}; weft's patches are squares")
    return int(sides[0])


def describe_images(c: Any) -> dict[str, Any]:
    """What every model of images says of them."""
    if len(c.image) != 3:
        raise CheckpointError(f"the model reads {c.image}; this foreign format has only (channels, height, width)")
    channels, height, width = c.image
    size = height if height == width else [height, width]
    return {"num_channels": channels, "image_size": size, "patch_size": c.patch, "num_labels": c.classes}


def describe(c: ViTConfig) -> dict[str, Any]:
    return {
        "architectures": ["ViTForImageClassification"],
        "model_type": "vit",
        **describe_images(c),
        "num_hidden_layers": c.layers,
        "num_attention_heads": c.heads,
        "hidden_size": c.width,
        "intermediate_size": c.ffn_width or 4 * c.width,
        "hidden_act": ACTIVATIONS[c.activation],
        "hidden_dropout_prob": c.dropout,
        "attention_probs_dropout_prob": c.attention_dropout,
        "layer_norm_eps": c.eps,
        "qkv_bias": True,
    }


def table(c: ViTConfig) -> Table:
    rows: list[Row] = [
        Rename("vit.embeddings.cls_token", "class_embedding"),
        Rename("vit.embeddings.position_embeddings", "position_embedding"),
    ]
    layer = "vit.encoder.layer.{i}."
    renamed = {
        "vit.embeddings.patch_embeddings.projection": "patches",
        f"{layer}layernorm_before": "blocks.{i}.norm1",
        f"{layer}layernorm_after": "blocks.{i}.norm2",
        f"{layer}attention.output.dense": "blocks.{i}.attention.out",
        f"{layer}intermediate.dense": "blocks.{i}.feedforward.up",
        f"{layer}output.dense": "blocks.{i}.feedforward.down",
        "vit.layernorm": "norm",
        "classifier": "head",
    }
    for part in ("weight", "bias"):
        rows += [Rename(f"{foreign}.{part}", f"{own}.{part}") for foreign, own in renamed.items()]
        parts = tuple(f"{layer}attention.attention.{name}.{part}" for name in ("query", "key", "value"))
        rows.append(Join(parts, f"blocks.{{i}}.attention.qkv.{part}"))
        rows.append(Ignore(f"vit.pooler.dense.{part}"))  # on the inner model only; no head of ours reads it
    return Table(rows, prefix="vit.")


FAMILY = Family("vit/images", ViTConfig, settings, describe, table, fresh=("head.",))
