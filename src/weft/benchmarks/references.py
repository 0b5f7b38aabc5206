"""Small models of transformers with random weights, what they are asked, and what ours are asked in their place."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from weft.core.errors import CheckpointError, require

Settings = dict[str, Any]
Inputs = dict[str, Tensor]
Outputs = list[Tensor]

GPT: Settings = {"vocab_size": 77, "n_positions": 40}
LLAMA: Settings = {"vocab_size": 101, "max_position_embeddings": 64}
BERT: Settings = {"vocab_size": 120, "max_position_embeddings": 40}
VIT: Settings = {"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 32, "intermediate_size": 64}
SWIN: Settings = {"patch_size": 2, "window_size": 4, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "num_labels": 5}


def llama(layers: int, heads: int, groups: int, width: int, inner: int, base: float, **others: Any) -> Settings:
    sizes = {"num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": groups}
    rotary = {"rope_parameters": {"rope_type": "default", "rope_theta": base}}
    return LLAMA | sizes | {"hidden_size": width, "intermediate_size": inner} | rotary | others


def bert(layers: int, heads: int, width: int, inner: int, **others: Any) -> Settings:
    sizes = {"num_hidden_layers": layers, "num_attention_heads": heads, "hidden_size": width, "intermediate_size": inner}
    return BERT | sizes | others


def t5(layers: int, decoder_layers: int, heads: int, head: int, width: int, inner: int, vocabulary: int, **others: Any) -> Settings:
    sizes = {"num_layers": layers, "num_decoder_layers": decoder_layers, "num_heads": heads, "d_kv": head, "d_model": width}
    return sizes | {"d_ff": inner, "vocab_size": vocabulary} | others


def marian(vocabulary: int, width: int, heads: int, inner: int, layers: tuple[int, int], activation: str, context: int) -> Settings:
    made: Settings = {"vocab_size": vocabulary, "d_model": width, "activation_function": activation, "max_position_embeddings": context}
    made |= {"scale_embedding": True, "pad_token_id": vocabulary - 1, "decoder_start_token_id": vocabulary - 1}
    for stack, number in zip(("encoder", "decoder"), layers, strict=True):
        made |= {f"{stack}_layers": number, f"{stack}_attention_heads": heads, f"{stack}_ffn_dim": inner}
    return made


CASES: dict[str, dict[str, Settings]] = {
    "openai-gpt": {
        "2 layers of 32": GPT | {"n_layer": 2, "n_head": 2, "n_embd": 32},
        "3 layers of 64": GPT | {"n_layer": 3, "n_head": 4, "n_embd": 64},
        "1 layer of 48, 3 heads": GPT | {"n_layer": 1, "n_head": 3, "n_embd": 48},
    },
    "gpt2": {
        "2 layers of 32": GPT | {"n_layer": 2, "n_head": 2, "n_embd": 32},
        "3 layers of 64, inner 96, exact GELU": {"n_layer": 3, "n_head": 4, "n_embd": 64, "vocab_size": 257, "n_positions": 64}
        | {"n_inner": 96, "activation_function": "gelu"},
        "1 layer of 48, 3 heads, untied": GPT | {"n_layer": 1, "n_head": 3, "n_embd": 48, "tie_word_embeddings": False},
    },
    "llama": {
        "2 layers of 32, 4 heads in 2 groups": llama(2, 4, 2, 32, 48, 1e4, tie_word_embeddings=True, rms_norm_eps=1e-5),
        "3 layers of 72, 9 heads in 3 groups": llama(3, 9, 3, 72, 100, 1e5, tie_word_embeddings=True, rms_norm_eps=1e-6),
        "1 layer of 32, untied": llama(1, 2, 2, 32, 64, 500.0, tie_word_embeddings=False, rms_norm_eps=1e-5),
    },
    "bert": {
        "2 layers of 32": bert(2, 2, 32, 64),
        "3 layers of 48, tanh GELU": bert(3, 4, 48, 100, hidden_act="gelu_new"),
        "1 layer of 96, 6 heads, larger epsilon": bert(1, 6, 96, 384, layer_norm_eps=1e-5),
    },
    "t5": {
        "2 + 2 layers of 32": t5(2, 2, 4, 8, 32, 64, 100),
        "3 + 2 layers of 48, version 1.1": t5(3, 2, 3, 20, 48, 80, 60, feed_forward_proj="gated-gelu", tie_word_embeddings=False),
        "1 + 3 layers of 16, 8 buckets": t5(1, 3, 2, 16, 16, 32, 50, relative_attention_num_buckets=8, relative_attention_max_distance=12),
        "2 + 2 layers of 32, gated, tied": t5(2, 2, 2, 16, 32, 48, 40, feed_forward_proj="gated-gelu"),
    },
    "marian": {
        "2 + 2 layers of 32, swish": marian(100, 32, 4, 64, (2, 2), "swish", 512),
        "3 + 1 layers of 48, ReLU": marian(60, 48, 3, 100, (3, 1), "relu", 64),
        "1 + 3 layers of 16, GELU": marian(50, 16, 2, 64, (1, 3), "gelu", 40),
    },
    "vit": {
        "16 patches of 4 x 4": VIT | {"image_size": 16, "patch_size": 4, "num_labels": 5},
        "9 x 14 pixels, 4 channels, tanh GELU": VIT
        | {"image_size": (9, 14), "patch_size": 3, "num_channels": 4, "num_labels": 3, "hidden_act": "gelu_pytorch_tanh"},
        "3 layers, grey": VIT
        | {"image_size": 15, "patch_size": 5, "num_channels": 1, "num_hidden_layers": 3, "intermediate_size": 50, "layer_norm_eps": 1e-6},
        "4 layers of 192": {"image_size": 64, "patch_size": 16, "num_hidden_layers": 4, "num_attention_heads": 3}
        | {"hidden_size": 192, "intermediate_size": 768},
    },
    "swin": {
        "shifted, then one window": SWIN | {"image_size": 16},
        "never shifted": SWIN | {"image_size": 16, "depths": [1, 1], "num_channels": 1},
        "shifted twice, padded to the window": SWIN | {"image_size": (26, 19), "num_channels": 2, "mlp_ratio": 3.0},
        "odd sides, padded to patch, window and merge": SWIN
        | {"image_size": (21, 33), "patch_size": 4, "window_size": 3, "depths": [2, 1], "hidden_act": "gelu_pytorch_tanh"},
        "three stages of the published form": SWIN
        | {"image_size": 112, "patch_size": 4, "window_size": 7, "embed_dim": 48, "depths": [2, 2, 2], "num_heads": [3, 6, 12]},
    },
}
"""By family, as the registry of converters calls it, and by what a configuration has that others have not."""


@torch.no_grad()
def reference(family: str, settings: Settings, kind: str = "") -> Any:
    """A model of transformers whose weights are far from their first values, so that a forgotten bias or norm shows."""
    made = getattr(require("transformers", "hf"), kind or KINDS[family].name)
    torch.manual_seed(0)
    model = made(made.config_class(**settings)).eval()
    if family == "t5" and not settings.get("tie_word_embeddings", True):  # it ties what it builds, and leaves apart what it reads
        model.lm_head.weight = nn.Parameter(torch.randn_like(model.lm_head.weight))
    for parameter in model.parameters():
        parameter.add_(torch.randn_like(parameter) * (0.1 if parameter.ndim == 1 else 0.05))
    if family == "marian":
        for stack in (model.model.encoder, model.model.decoder):  # a parameter to PyTorch, but a fixed table
            stack.embed_positions.weight.copy_(stack.embed_positions.create_weight())
        model.final_logits_bias.normal_()
    return model


def within(lengths: Tensor) -> Tensor:
    """Which places of rows as long as the longest are no padding."""
    return torch.arange(int(lengths.max())) < lengths[:, None]


def ragged(vocabulary: int, *lengths: int) -> tuple[Tensor, Tensor]:
    """Tokens, padded with others, and how many of each row are its own."""
    return torch.randint(0, vocabulary, (len(lengths), max(lengths))), torch.tensor(lengths)


class Decoder:
    """GPT and its like: states and logits of texts."""

    def inputs(self, config: Any) -> Inputs:
        ids, lengths = ragged(config.vocab_size, 40, 1, 17, 39, 8)
        return {"ids": ids, "lengths": lengths}

    def theirs(self, model: Any, given: Inputs) -> Outputs:
        seen = within(given["lengths"])
        out = model(given["ids"], attention_mask=seen.long(), output_hidden_states=True)
        return [out.hidden_states[-1][seen], out.logits[seen]]

    def ours(self, model: Any, given: Inputs) -> Outputs:
        seen = within(given["lengths"])  # padding on the right: a causal model does not see it
        return [model.hidden(given["ids"])[seen], model(given["ids"])[seen]]


class Encoder:
    """BERT: states, and logits of tokens and of pairs."""

    def inputs(self, config: Any) -> Inputs:
        ids, lengths = ragged(config.vocab_size, 40, 3, 17, 39, 8)
        return {"ids": ids, "lengths": lengths, "segments": torch.randint(0, 2, ids.shape)}

    def theirs(self, model: Any, given: Inputs) -> Outputs:
        seen = within(given["lengths"])
        out = model(given["ids"], attention_mask=seen.long(), token_type_ids=given["segments"], output_hidden_states=True)
        return [out.hidden_states[-1][seen], out.prediction_logits[seen], out.seq_relationship_logits]

    def ours(self, model: Any, given: Inputs) -> Outputs:
        seen = within(given["lengths"])
        hidden = model.hidden(given["ids"], given["segments"], given["lengths"])
        return [hidden[seen], model.head(hidden)[seen], model.pair(hidden)]


class EncoderDecoder:
    """T5 and Marian: states of sources, and logits of targets."""

    def inputs(self, config: Any) -> Inputs:
        source, lengths = ragged(config.vocab_size, 40, 1, 17, 39, 8)
        target, target_lengths = ragged(config.vocab_size, 25, 3, 1, 24, 9)
        return {"source": source, "lengths": lengths, "target": target, "target_lengths": target_lengths}

    def theirs(self, model: Any, given: Inputs) -> Outputs:
        seen, target_mask = within(given["lengths"]), within(given["target_lengths"])
        masks = {"attention_mask": seen.long(), "decoder_attention_mask": target_mask.long()}
        out = model(input_ids=given["source"], decoder_input_ids=given["target"], **masks)
        return [out.encoder_last_hidden_state[seen], out.logits[target_mask]]

    def ours(self, model: Any, given: Inputs) -> Outputs:
        seen, target_mask = within(given["lengths"]), within(given["target_lengths"])
        logits = model(given["source"], given["lengths"], given["target"])
        return [model.encode(given["source"], given["lengths"])[seen], logits[target_mask]]


class Sight:
    """ViT and Swin: states and logits of images."""

    def inputs(self, config: Any) -> Inputs:
        size = config.image_size
        return {"image": torch.randn(3, config.num_channels, *(size if isinstance(size, (list, tuple)) else (size, size)))}

    def theirs(self, model: Any, given: Inputs) -> Outputs:
        return [model.base_model(given["image"]).last_hidden_state, model(given["image"]).logits]

    def ours(self, model: Any, given: Inputs) -> Outputs:
        return [model.hidden(given["image"]), model(given["image"])]


class Kind(NamedTuple):
    name: str
    """Its class in transformers."""
    reads: Decoder | Encoder | EncoderDecoder | Sight


KINDS = {
    "openai-gpt": Kind("OpenAIGPTLMHeadModel", Decoder()),
    "gpt2": Kind("GPT2LMHeadModel", Decoder()),
    "llama": Kind("LlamaForCausalLM", Decoder()),
    "bert": Kind("BertForPreTraining", Encoder()),
    "t5": Kind("T5ForConditionalGeneration", EncoderDecoder()),
    "marian": Kind("MarianMTModel", EncoderDecoder()),
    "vit": Kind("ViTForImageClassification", Sight()),
    "swin": Kind("SwinForImageClassification", Sight()),
}


def apart(first: Outputs, second: Outputs) -> float:
    """The largest difference of two lists of tensors; infinite where something is no number."""
    largest = max(float((a - b).abs().max()) for a, b in zip(first, second, strict=True))
    return largest if math.isfinite(largest) else math.inf


def reread(kind: Any, folder: Path) -> Any:
    """A model of transformers from a folder of ours, of which nothing may be missing or left over."""
    model, report = kind.from_pretrained(folder, output_loading_info=True)
    if wrong := {name: found for name, found in report.items() if found}:
        raise CheckpointError(f"{folder}: transformers does not read what weft wrote ({wrong})")
    return model.eval()
