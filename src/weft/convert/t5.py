"""T5 and its version 1.1 as Hugging Face writes them."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from weft.convert.family import Family, activation, need, setting, target_special_tokens
from weft.convert.table import Ignore, Join, Rename, Row, Same, Table
from weft.core.errors import CheckpointError
from weft.models.language.t5 import T5Config

HEAD = "lm_head.weight"


def settings(config: dict[str, Any]) -> T5Config:
    need(config, layer_norm_epsilon=1e-6)
    kind = config.get("feed_forward_proj", "relu")
    if kind not in ("relu", "gated-gelu"):
        raise CheckpointError(f"config.json: feed_forward_proj is {kind!r}; weft's T5 has only 'relu' and 'gated-gelu'")
    need(config, is_gated_act=kind == "gated-gelu")
    function = config.get("dense_act_fn")  # follows from the one before; where a file says another, it counts
    if function is not None and activation(function) != ("gelu_tanh" if kind == "gated-gelu" else "relu"):
        raise CheckpointError(f"config.json: dense_act_fn is {function!r}, which weft's T5 does not have with feed_forward_proj {kind!r}")
    return T5Config(
        vocabulary=setting(config, "vocab_size"),
        layers=setting(config, "num_layers", "num_hidden_layers"),
        decoder_layers=config.get("num_decoder_layers") or 0,
        heads=setting(config, "num_heads", "num_attention_heads"),
        head_dim=setting(config, "d_kv", "head_dim"),
        width=setting(config, "d_model", "hidden_size"),
        ffn_width=setting(config, "d_ff"),
        gated=kind == "gated-gelu",
        # transformers 5 writes that every T5 is tied, and beside it whether the states are scaled, which only a tied one's are
        tie_embeddings=config.get("scale_decoder_outputs", config.get("tie_word_embeddings", True)),
        relative_buckets=config.get("relative_attention_num_buckets", 32),
        max_distance=config.get("relative_attention_max_distance", 128),
        dropout=config.get("dropout_rate", 0.1),
    )


def describe(c: T5Config) -> dict[str, Any]:
    return {
        "architectures": ["T5ForConditionalGeneration"],
        "model_type": "t5",
        "vocab_size": c.vocabulary,
        "num_layers": c.layers,
        "num_decoder_layers": c.decoder_layers or c.layers,
        "num_heads": c.heads,
        "d_kv": c.head_dim,
        "d_model": c.width,
        "d_ff": c.ffn_width or 4 * c.width,
        "feed_forward_proj": "gated-gelu" if c.gated else "relu",
        "tie_word_embeddings": c.tie_embeddings,
        "relative_attention_num_buckets": c.relative_buckets,
        "relative_attention_max_distance": c.max_distance,
        "dropout_rate": c.dropout,
        "layer_norm_epsilon": 1e-6,
        "is_encoder_decoder": True,
        "pad_token_id": 0,
        "eos_token_id": 1,
        "decoder_start_token_id": 0,
    }


class T5Table(Table):
    """A file of an untied model may lack its head: transformers 5 ties every one it builds, and then keeps the embedding alone."""

    def to_own(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        own = super().to_own(tensors)
        missing = any(row.foreign == HEAD for row in self.rows if isinstance(row, Rename)) and HEAD not in tensors
        return {**own, "head.weight": own["embed.weight"]} if missing and "embed.weight" in own else own


def table(c: T5Config) -> Table:
    rows: list[Row] = [
        Rename("shared.weight", "embed.weight"),
        Same(HEAD, "shared.weight") if c.tie_embeddings else Rename(HEAD, "head.weight"),
        Rename("encoder.final_layer_norm.weight", "encoder_norm.weight"),
        Rename("decoder.final_layer_norm.weight", "norm.weight"),
        Ignore("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"),  # in the first files, never used
    ]
    for stack, feedforward in (("encoder", 1), ("decoder", 2)):
        rows.append(Same(f"{stack}.embed_tokens.weight", "shared.weight"))
        rows.append(Rename(f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight", f"{stack}_bias.table.weight"))
        rows += attention_rows(f"{stack}.block.{{i}}.layer.0.SelfAttention.", f"{stack}.{{i}}.attention.")
        rows += feedforward_rows(f"{stack}.block.{{i}}.layer.{feedforward}.DenseReluDense.", f"{stack}.{{i}}.feedforward.", c.gated)
        for place in range(feedforward + 1):
            rows.append(Rename(f"{stack}.block.{{i}}.layer.{place}.layer_norm.weight", f"{stack}.{{i}}.norm{place + 1}.weight"))
    rows += attention_rows("decoder.block.{i}.layer.1.EncDecAttention.", "decoder.{i}.cross.")
    return T5Table(rows)


def attention_rows(theirs: str, ours: str) -> list[Row]:
    return [
        Rename(theirs + "q.weight", ours + "q.weight"),
        Join((theirs + "k.weight", theirs + "v.weight"), ours + "kv.weight"),
        Rename(theirs + "o.weight", ours + "out.weight"),
    ]


def feedforward_rows(theirs: str, ours: str, gated: bool) -> list[Row]:
    up: Row = Rename(theirs + "wi.weight", ours + "up.weight")
    if gated:
        up = Join((theirs + "wi_0.weight", theirs + "wi_1.weight"), ours + "gate_up.weight")
    return [up, Rename(theirs + "wo.weight", ours + "down.weight")]


FAMILY = Family("t5/text", T5Config, settings, describe, table, special_tokens=target_special_tokens(padding=0, end=1))
