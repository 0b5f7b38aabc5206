"""GPT-1 as Hugging Face writes it."""

from __future__ import annotations

from typing import Any

from weft.convert.family import Family, need, only, setting
from weft.convert.gpt2 import block_rows
from weft.convert.table import Ignore, Rename, Row, Same, Table
from weft.models.language.gpt import GPTConfig


def settings(config: dict[str, Any]) -> GPTConfig:
    need(config, layer_norm_epsilon=1e-5, afn="gelu", tie_word_embeddings=True)
    return GPTConfig(
        vocabulary=setting(config, "vocab_size"),
        context=setting(config, "n_positions", "max_position_embeddings"),
        layers=setting(config, "n_layer", "num_hidden_layers"),
        heads=setting(config, "n_head", "num_attention_heads"),
        width=setting(config, "n_embd", "hidden_size"),
        norm="post",
        activation="gelu_tanh",  # what this family calls "gelu"
        embedding_dropout=config.get("embd_pdrop", 0.1),
        attention_dropout=config.get("attn_pdrop", 0.1),
        residual_dropout=config.get("resid_pdrop", 0.1),
    )


def describe(c: GPTConfig) -> dict[str, Any]:
    only(
        c,
        position_embedding="learned",
        norm="post",
        sliding_window=0,
        bias=True,
        tie_embeddings=True,
        activation="gelu_tanh",
        ffn_width=0,
        classes=0,
    )
    return {
        "architectures": ["OpenAIGPTLMHeadModel"],
        "model_type": "openai-gpt",
        "vocab_size": c.vocabulary,
        "n_positions": c.context,
        "n_layer": c.layers,
        "n_head": c.heads,
        "n_embd": c.width,
        "afn": "gelu",
        "embd_pdrop": c.embedding_dropout,
        "attn_pdrop": c.attention_dropout,
        "resid_pdrop": c.residual_dropout,
        "layer_norm_epsilon": 1e-5,
    }


def table(c: GPTConfig) -> Table:
    rows: list[Row] = [
        Rename("transformer.tokens_embed.weight", "embed.weight"),
        Rename("transformer.positions_embed.weight", "position.weight"),
        Ignore("transformer.position_ids"),
        Ignore("transformer.h.{i}.attn.bias"),  # the causal mask
        Same("lm_head.weight", "transformer.tokens_embed.weight"),
    ]
    return Table(rows + block_rows(), prefix="transformer.")


FAMILY = Family("gpt/text", GPTConfig, settings, describe, table)
