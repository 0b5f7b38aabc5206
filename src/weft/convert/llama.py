"""Llama and models of its form, as Hugging Face writes them."""

from __future__ import annotations

from typing import Any

from weft.convert.family import Family, activation, need, setting
from weft.convert.table import Ignore, Join, Rename, Row, Same, Table
from weft.core.errors import CheckpointError
from weft.models.language.llama import LlamaConfig


def settings(config: dict[str, Any]) -> LlamaConfig:
    need(config, attention_bias=False, mlp_bias=False, is_causal=True)
    width, heads = setting(config, "hidden_size"), setting(config, "num_attention_heads")
    need(config, head_dim=width // heads)
    if activation(config.get("hidden_act", "silu")) != "silu":
        raise CheckpointError(f"config.json: hidden_act is {config['hidden_act']!r}; weft's Llama has only 'silu'")
    positions = config.get("rope_scaling") or config.get("rope_parameters") or {}  # the older name counts where both are there
    if positions.get("rope_type", positions.get("type", "default")) != "default":
        raise CheckpointError(f"config.json: weft has no scaled rotary positions ({positions})")
    for settings in (positions, config):
        need(settings, partial_rotary_factor=1.0)
    return LlamaConfig(
        vocabulary=setting(config, "vocab_size"),
        context=setting(config, "max_position_embeddings"),
        layers=setting(config, "num_hidden_layers"),
        heads=heads,
        kv_heads=config.get("num_key_value_heads") or 0,
        width=width,
        ffn_width=setting(config, "intermediate_size"),
        rope_base=positions.get("rope_theta") or config.get("rope_theta") or 10000.0,
        eps=setting(config, "rms_norm_eps"),
        tie_embeddings=config.get("tie_word_embeddings", False),
    )


def describe(c: LlamaConfig) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": c.vocabulary,
        "max_position_embeddings": c.context,
        "num_hidden_layers": c.layers,
        "num_attention_heads": c.heads,
        "num_key_value_heads": c.kv_heads or c.heads,
        "hidden_size": c.width,
        "intermediate_size": c.hidden_units,
        "rope_theta": c.rope_base,
        "rope_parameters": {"rope_type": "default", "rope_theta": c.rope_base},
        "rms_norm_eps": c.eps,
        "hidden_act": "silu",
        "tie_word_embeddings": c.tie_embeddings,
        "attention_bias": False,
        "mlp_bias": False,
    }


def table(c: LlamaConfig) -> Table:
    queries = c.width
    shared = (c.kv_heads or c.heads) * (c.width // c.heads)
    layer, block = "model.layers.{i}.", "blocks.{i}."
    rows: list[Row] = [
        Rename("model.embed_tokens.weight", "embed.weight"),
        Rename("model.norm.weight", "norm.weight"),
        Rename(layer + "input_layernorm.weight", block + "norm1.weight"),
        Rename(layer + "post_attention_layernorm.weight", block + "norm2.weight"),
        Rename(layer + "self_attn.o_proj.weight", block + "attention.out.weight"),
        Rename(layer + "mlp.down_proj.weight", block + "feedforward.down.weight"),
        Ignore(layer + "self_attn.rotary_emb.inv_freq"),
        Same("lm_head.weight", "model.embed_tokens.weight") if c.tie_embeddings else Rename("lm_head.weight", "head.weight"),
    ]
    attention = tuple(layer + f"self_attn.{part}_proj.weight" for part in "qkv")
    rows.append(Join(attention, block + "attention.qkv.weight", sizes=(queries, shared, shared)))
    rows.append(Join((layer + "mlp.gate_proj.weight", layer + "mlp.up_proj.weight"), block + "feedforward.gate_up.weight"))
    return Table(rows, prefix="model.")


FAMILY = Family("llama/text", LlamaConfig, settings, describe, table)
