"""GPT-2 as Hugging Face writes it."""

from __future__ import annotations

from typing import Any

from weft.convert.family import ACTIVATIONS, Family, activation, need, only, setting
from weft.convert.table import Ignore, Rename, Row, Same, Table
from weft.models.language.gpt import GPTConfig

LINEAR = {
    "attn.c_attn": "attention.qkv",
    "attn.c_proj": "attention.out",
    "mlp.c_fc": "feedforward.up",
    "mlp.c_proj": "feedforward.down",
}


def settings(config: dict[str, Any]) -> GPTConfig:
    need(config, scale_attn_weights=True, scale_attn_by_inverse_layer_idx=False, add_cross_attention=False, layer_norm_epsilon=1e-5)
    return GPTConfig(
        vocabulary=setting(config, "vocab_size"),
        context=setting({"n_positions": config.get("n_ctx"), **config}, "n_positions", "max_position_embeddings"),
        layers=setting(config, "n_layer", "num_hidden_layers"),
        heads=setting(config, "n_head", "num_attention_heads"),
        width=setting(config, "n_embd", "hidden_size"),
        ffn_width=config.get("n_inner") or 0,
        activation=activation(config.get("activation_function", "gelu_new")),  # type: ignore[arg-type]
        tie_embeddings=config.get("tie_word_embeddings", True),
        embedding_dropout=config.get("embd_pdrop", 0.1),
        attention_dropout=config.get("attn_pdrop", 0.1),
        residual_dropout=config.get("resid_pdrop", 0.1),
    )


def describe(c: GPTConfig) -> dict[str, Any]:
    only(c, position_embedding="learned", norm="pre", sliding_window=0, bias=True, classes=0)
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "vocab_size": c.vocabulary,
        "n_positions": c.context,
        "n_layer": c.layers,
        "n_head": c.heads,
        "n_embd": c.width,
        "n_inner": c.ffn_width or None,
        "activation_function": ACTIVATIONS[c.activation],
        "tie_word_embeddings": c.tie_embeddings,
        "embd_pdrop": c.embedding_dropout,
        "attn_pdrop": c.attention_dropout,
        "resid_pdrop": c.residual_dropout,
        "layer_norm_epsilon": 1e-5,
    }


def block_rows() -> list[Row]:
    """The blocks, which GPT-1 names alike."""
    rows: list[Row] = []
    for foreign, own in (("ln_1", "norm1"), ("ln_2", "norm2")):
        rows += [Rename(f"transformer.h.{{i}}.{foreign}.{part}", f"blocks.{{i}}.{own}.{part}") for part in ("weight", "bias")]
    for foreign, own in LINEAR.items():
        rows.append(Rename(f"transformer.h.{{i}}.{foreign}.weight", f"blocks.{{i}}.{own}.weight", transpose=True))
        rows.append(Rename(f"transformer.h.{{i}}.{foreign}.bias", f"blocks.{{i}}.{own}.bias"))
    return rows


def table(c: GPTConfig) -> Table:
    rows: list[Row] = [
        Rename("transformer.wte.weight", "embed.weight"),
        Rename("transformer.wpe.weight", "position.weight"),
        Rename("transformer.ln_f.weight", "norm.weight"),
        Rename("transformer.ln_f.bias", "norm.bias"),
        Ignore("transformer.h.{i}.attn.bias"),  # the causal mask
        Ignore("transformer.h.{i}.attn.masked_bias"),
        Same("lm_head.weight", "transformer.wte.weight") if c.tie_embeddings else Rename("lm_head.weight", "head.weight"),
    ]
    return Table(rows + block_rows(), prefix="transformer.")


FAMILY = Family("gpt/text", GPTConfig, settings, describe, table)
