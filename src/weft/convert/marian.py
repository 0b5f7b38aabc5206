"""Marian's translators (Junczys-Dowmunt et al., 2018, arXiv:1804.00344) as Hugging Face writes them: the Transformer of 2017."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from weft.convert.family import ACTIVATIONS, Family, activation, need, only, setting, target_special_tokens
from weft.convert.table import Ignore, Join, Rename, Row, Same, Table
from weft.models.language.transformer import TransformerConfig


def settings(config: dict[str, Any]) -> TransformerConfig:
    need(config, share_encoder_decoder_embeddings=True, tie_word_embeddings=True, activation_dropout=0.0)
    need({"scale_embedding": False, **config}, scale_embedding=True)
    heads, ffn_width = setting(config, "encoder_attention_heads", "num_attention_heads"), setting(config, "encoder_ffn_dim")
    need(config, decoder_attention_heads=heads, decoder_ffn_dim=ffn_width)
    return TransformerConfig(
        vocabulary=setting(config, "vocab_size"),
        context=setting(config, "max_position_embeddings"),
        layers=setting(config, "encoder_layers", "num_hidden_layers"),
        decoder_layers=setting(config, "decoder_layers"),
        heads=heads,
        width=setting(config, "d_model", "hidden_size"),
        ffn_width=ffn_width,
        activation=activation(config.get("activation_function", "gelu")),  # type: ignore[arg-type]
        interleaved_positions=False,
        output_bias=True,
        dropout=config.get("dropout", 0.1),
        attention_dropout=config.get("attention_dropout", 0.0),
    )


def describe(c: TransformerConfig) -> dict[str, Any]:
    only(c, norm="post", encoder_output="last", interleaved_positions=False, tie_embeddings=True, output_bias=True)
    ffn_width = c.ffn_width or 4 * c.width
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "vocab_size": c.vocabulary,
        "max_position_embeddings": c.context,
        "encoder_layers": c.layers,
        "decoder_layers": c.decoder_layers or c.layers,
        "encoder_attention_heads": c.heads,
        "decoder_attention_heads": c.heads,
        "d_model": c.width,
        "encoder_ffn_dim": ffn_width,
        "decoder_ffn_dim": ffn_width,
        "activation_function": ACTIVATIONS[c.activation],
        "dropout": c.dropout,
        "attention_dropout": c.attention_dropout,
        "scale_embedding": True,
        "share_encoder_decoder_embeddings": True,
        "tie_word_embeddings": True,
        "is_encoder_decoder": True,
        "eos_token_id": 0,
        "forced_eos_token_id": 0,
        "pad_token_id": c.vocabulary - 1,
        "decoder_start_token_id": c.vocabulary - 1,
    }


class MarianTable(Table):
    """Their output bias is a row (1, V), ours a vector (V,)."""

    def to_own(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        own = super().to_own(tensors)
        return {name: value.flatten() if name == "head.bias" else value for name, value in own.items()}

    def to_foreign(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        foreign = super().to_foreign(tensors)
        return {name: value[None] if name == "final_logits_bias" else value for name, value in foreign.items()}


def table(c: TransformerConfig) -> Table:
    rows: list[Row] = [
        Rename("model.shared.weight", "embed.weight"),
        Same("lm_head.weight", "model.shared.weight"),
        Rename("final_logits_bias", "head.bias"),
    ]
    for stack, last in (("encoder", "norm2"), ("decoder", "norm3")):
        theirs, ours = f"model.{stack}.layers.{{i}}.", f"{stack}.{{i}}."
        rows.append(Same(f"model.{stack}.embed_tokens.weight", "model.shared.weight"))
        rows.append(Ignore(f"model.{stack}.embed_positions.weight"))  # the table of positions
        rows += linear_rows(theirs, ours + "attention.qkv", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
        rows += linear_rows(theirs, ours + "attention.out", "self_attn.out_proj")
        rows += linear_rows(theirs, ours + "feedforward.up", "fc1")
        rows += linear_rows(theirs, ours + "feedforward.down", "fc2")
        rows += linear_rows(theirs, ours + "norm1", "self_attn_layer_norm")
        rows += linear_rows(theirs, ours + last, "final_layer_norm")
    theirs, ours = "model.decoder.layers.{i}.encoder_attn", "decoder.{i}."
    rows += linear_rows(theirs, ours + "cross.q", ".q_proj")
    rows += linear_rows(theirs, ours + "cross.kv", ".k_proj", ".v_proj")
    rows += linear_rows(theirs, ours + "cross.out", ".out_proj")
    rows += linear_rows(theirs, ours + "norm2", "_layer_norm")
    return MarianTable(rows, prefix="model.")


def linear_rows(theirs: str, ours: str, *parts: str) -> list[Row]:
    """Weight and bias of a layer of ours, which may be several of theirs end to end."""
    return [Join(tuple(f"{theirs}{part}.{leaf}" for part in parts), f"{ours}.{leaf}") for leaf in ("weight", "bias")]


SPECIAL_TOKENS = target_special_tokens(padding=58100, end=0)
FAMILY = Family("transformer/pairs", TransformerConfig, settings, describe, table, fresh=("head.bias",), special_tokens=SPECIAL_TOKENS)
