"""Models in llama.cpp's GGUF format, whose weights may be stored in a few bits each: they are read as the numbers they stand for."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from weft.convert.folder import Foreign
from weft.convert.gguf_file import GGUFFile, open_file
from weft.convert.table import Rename, Table
from weft.core.errors import CheckpointError, require
from weft.core.untrusted import checked, natural, parsing
from weft.data.tokenizers.subword_engines import check_merges
from weft.data.tokenizers.subwords import ByteBPE, byte_level

SPLITS = {"gpt-2": False, "default": False, "smollm": True}
"""How text is cut before pairs are merged, and whether every digit is then by itself."""
ROLES = {"start": "bos", "end": "eos", "padding": "padding", "unknown": "unknown"}
CONTROL = 3
FREQUENCIES = "rope_freqs.weight"
"""By what each rotary frequency is divided."""
FACTS: dict[str, Any] = {
    **dict.fromkeys(("general.architecture", "llama.rope.scaling.type"), str),
    **{f"llama.{name}": natural for name in ("context_length", "embedding_length", "block_count", "feed_forward_length")},
    **{f"llama.attention.{name}": natural for name in ("head_count", "head_count_kv", "key_length", "value_length")},
    **{"llama.rope.dimension_count": natural, "llama.rope.freq_base": float | int, "llama.attention.layer_norm_rms_epsilon": float | int},
    **dict.fromkeys(("tokenizer.ggml.model", "tokenizer.ggml.pre", "tokenizer.chat_template"), str),
    **{f"tokenizer.ggml.{name}": [str] for name in ("tokens", "merges")},
    **{f"tokenizer.ggml.{name}_token_id": natural for name in ROLES.values()},
    "tokenizer.ggml.token_type": np.ndarray,
}
"""The facts that are read, and their kinds."""
log = logging.getLogger("weft")
NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "blk.{i}.attn_norm": "model.layers.{i}.input_layernorm",
    "blk.{i}.ffn_norm": "model.layers.{i}.post_attention_layernorm",
    "blk.{i}.attn_q": "model.layers.{i}.self_attn.q_proj",
    "blk.{i}.attn_k": "model.layers.{i}.self_attn.k_proj",
    "blk.{i}.attn_v": "model.layers.{i}.self_attn.v_proj",
    "blk.{i}.attn_output": "model.layers.{i}.self_attn.o_proj",
    "blk.{i}.ffn_gate": "model.layers.{i}.mlp.gate_proj",
    "blk.{i}.ffn_up": "model.layers.{i}.mlp.up_proj",
    "blk.{i}.ffn_down": "model.layers.{i}.mlp.down_proj",
}
TABLE = Table([Rename(f"{foreign}.weight", f"{own}.weight") for foreign, own in NAMES.items()])


def read(path: Path) -> Foreign:
    """A GGUF file of the Llama form, as if it were a Hugging Face folder."""
    library = require("gguf", "gguf")
    with parsing(path, CheckpointError, ": is no GGUF file that can be read"):
        file = open_file(path, lambda kind: library.GGML_QUANT_SIZES[library.GGMLQuantizationType(kind)])
        checked(file.facts, {name: kind for name, kind in FACTS.items() if name in file.facts})
        refuse_form(path, file.facts)
        tensors = {name: numbers(library, file, name) for name in file.tensors}
        config = settings(path, file.facts, tensors)
        own = TABLE.to_own({name: tensor for name, tensor in tensors.items() if name != FREQUENCIES})
        for name, tensor in own.items():
            if name.endswith(("q_proj.weight", "k_proj.weight")):
                heads = config["num_attention_heads" if "q_proj" in name else "num_key_value_heads"]
                own[name] = unpermute_rope(tensor, heads)
        return Foreign(config, own, tokenizer(path, file.facts), chat_template=file.facts.get("tokenizer.chat_template", ""))


def numbers(library: Any, file: GGUFFile, name: str) -> Tensor:
    """A tensor as the numbers it stands for."""
    info = file.tensors[name]
    stored = file.stored(name).reshape(*info.shape[:-1], -1)
    return torch.from_numpy(np.array(library.dequantize(stored, library.GGMLQuantizationType(info.kind)), dtype=np.float32))


def unpermute_rope(weight: Tensor, heads: int) -> Tensor:
    """Rows of a projection (H * K, D) from llama.cpp's order, where rotary positions turn neighbours, to one where they turn halves."""
    return weight.view(heads, -1, 2, weight.size(1)).transpose(1, 2).reshape(weight.shape)


def tokenizer(path: Path, facts: dict[str, Any]) -> ByteBPE | None:
    """The byte-level BPE a file holds; None where it has another kind of tokens."""
    kind, way = facts.get("tokenizer.ggml.model"), facts.get("tokenizer.ggml.pre")
    if kind is None:
        return None
    if kind != "gpt2" or way not in SPLITS:
        log.warning(
            "%s: its tokens are of the kind %s/%s, which weft cannot read (it reads gpt2/%s)", path, kind, way, ", gpt2/".join(SPLITS)
        )
        return None
    library = require("tokenizers", "text")
    pieces, merges = facts["tokenizer.ggml.tokens"], [tuple(pair.split(" ", 1)) for pair in facts["tokenizer.ggml.merges"]]
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    check_merges(vocabulary, merges)
    engine = byte_level(library.models.BPE(vocabulary, merges))
    if SPLITS[way]:
        parts = library.pre_tokenizers
        engine.pre_tokenizer = parts.Sequence([parts.Digits(individual_digits=True), parts.ByteLevel(add_prefix_space=False)])
    engine.add_special_tokens(
        [piece for piece, type_ in zip(pieces, facts["tokenizer.ggml.token_type"].tolist(), strict=True) if type_ == CONTROL]
    )
    special_tokens = {
        role: facts[f"tokenizer.ggml.{name}_token_id"] for role, name in ROLES.items() if f"tokenizer.ggml.{name}_token_id" in facts
    }
    return ByteBPE(engine, special_tokens)


def refuse_form(path: Path, facts: dict[str, Any]) -> None:
    if (kind := facts.get("general.architecture")) != "llama":
        raise CheckpointError(f"{path}: holds a model of the form {kind!r}; weft reads GGUF of the form 'llama'")


def settings(path: Path, facts: dict[str, Any], tensors: dict[str, Tensor]) -> dict[str, Any]:
    """The file's facts as a Llama's config.json."""

    def fact(name: str) -> Any:
        if f"llama.{name}" not in facts:
            raise CheckpointError(f"{path}: says nothing of llama.{name}")
        value = facts[f"llama.{name}"]
        return float(f"{value:.7g}") if isinstance(value, float) else value  # it was stored in fp32

    scaling = facts.get("llama.rope.scaling.type", "none")
    if scaling != "none" or (FREQUENCIES in tensors and bool((tensors[FREQUENCIES] != 1).any())):
        raise CheckpointError(f"{path}: weft has no scaled rotary positions (llama.rope.scaling.type {scaling}, {FREQUENCIES})")
    width, heads = fact("embedding_length"), fact("attention.head_count")
    for name in ("rope.dimension_count", "attention.key_length", "attention.value_length"):
        if heads and facts.get(f"llama.{name}", width // heads) != width // heads:
            raise CheckpointError(
                f"{path}: llama.{name} is {facts[f'llama.{name}']}; weft's Llama has only {width // heads}, width by heads"
            )
    return {
        "model_type": "llama",
        "vocab_size": len(tensors["token_embd.weight"]) if "token_embd.weight" in tensors else 0,
        "max_position_embeddings": fact("context_length"),
        "num_hidden_layers": fact("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": fact("attention.head_count_kv"),
        "hidden_size": width,
        "intermediate_size": fact("feed_forward_length"),
        "rope_theta": facts.get("llama.rope.freq_base", 10000.0),
        "rms_norm_eps": fact("attention.layer_norm_rms_epsilon"),
        "tie_word_embeddings": "output.weight" not in tensors,
    }
