"""Every spelling of an earlier version, and what it is called now. Nothing else knows the old names; the next version deletes this file.

An old flag, setting or registry name still works and is answered with one line that names the new one. What was saved under old
names (recipe.json, tokenizer.json, names of tensors) is read under the new ones without a word.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

TYPES = {
    "draws": "noise_only",
    "two_folders": "unpaired_images",
    "waves": "audio",
    "sentinels": "t5_span_corruption",
    "memory": "associative_memory",
    "choice": "multiple_choice",
    "span": "extractive_qa",
    "tagging": "token_classification",
    "masked_pair": "mlm_nsp",
    "masked_target": "cmlm",
    "framed_texts": "gpt_finetuning_texts",
    "framed_choices": "gpt_finetuning_choices",
}
"""Registry names of the parts of a recipe."""

TOKENIZERS = {
    "pairs": "seq2seq",
    "answering": "foreign_seq2seq",
    "marked_characters": "birthplace_characters",
    "framed": "gpt_finetuning",
}

ANNOTATED = ("labelled_texts", "choices", "gpt_finetuning_texts", "gpt_finetuning_choices", "tagged")
OPTIMIZERS = ("sgd", "momentum", "rmsprop", "adam", "adamw")
PAIRS = {"unit": "tokenizer", "longest": "max_length", "tokens": "batch_tokens"}
DEVIATION = {"deviation": "init_std"}
FFN = {"inner": "ffn_width"}
TIED = {"tied": "tie_embeddings"}
POSITION = {"position": "position_embedding"}
GPT = {"window": "sliding_window"} | FFN | TIED | POSITION
SWITCHES = {"norm_heads": "qk_norm", "norm_embedding": "embedding_norm", "skips": "embedding_skips", "zero_outputs": "zero_init"}


def alike(parts: tuple[str, ...], names: dict[str, str]) -> dict[str, dict[str, str]]:
    return dict.fromkeys(parts, names)


SETTINGS: dict[str, dict[str, str]] = {
    "sample": {"walk": "latents", "complete": "inpaint", "way": "direction", "weights": "precision"},
    "serve": {"weights": "precision", "invariant": "batch_invariant"},
    "data": {"copied": "max_duplicate_lines", "largest": "max_package_share"},
    "bert_features": {"held": "held_out"},
    "gan_panels": {"turns": "discriminator_steps"},
    "plan_words": {"micro": "micro_batch", "checkpoint": "activation_checkpointing"},
    "train": {
        "micro": "micro_batch",
        "ramp": "batch_ramp",
        "keep": "keep_checkpoints",
        "activations": "activation_checkpointing",
        "graphs": "cuda_graphs",
        "blocks": "block_kernels",
        "logits": "cross_entropy",
        "update": "fused_casts",
    },
    "schedule": {"floor": "min_lr_ratio"},
    **alike(OPTIMIZERS, {"relative": "scale_parameter"}),
    "muon": {"relative": "scale_parameter", "rest_lr": "adamw_lr"},
    "gpt": GPT,
    "speedrun_gpt": SWITCHES | GPT,
    "llama": {"groups": "kv_heads", "base": "rope_base"} | FFN | TIED,
    "bert": {"left_to_right": "causal"} | DEVIATION | FFN,
    "vit": DEVIATION | FFN,
    "swin": DEVIATION | {"expansion": "mlp_ratio", "depth_dropout": "drop_path"},
    "t5": {"buckets": "relative_buckets", "distance": "max_distance", "head": "head_dim"} | FFN | TIED,
    "transformer": {"memory": "encoder_output", "interleaved": "interleaved_positions"} | FFN | TIED,
    "nonautoregressive": {"places": "fixed_length"} | FFN,
    "perceiver": {"bottleneck": "latents"} | FFN | POSITION,
    **alike(("mlp", "vae", "conditional_vae", "bigan"), {"initial": "weight_init"}),
    "semi_supervised_vae": {"initial": "weight_init", "reading": "classifier_channels"},
    "gan": {"initial": "weight_init", "kernels": "minibatch_kernels"},
    "dcgan": {"kernels": "minibatch_kernels", "perceptron": "mlp_width"},
    **alike(("pix2pix", "cyclegan"), {"halvings": "downsamplings"}),
    **alike(("pixelcnn", "gated_pixelcnn"), {"first": "first_kernel"}),
    "classification": {"smoothing": "label_smoothing"},
    "seq2seq": {"smoothing": "label_smoothing", "consistency": "r_drop", "alpha": "length_penalty"},
    "cmlm": {"smoothing": "label_smoothing", "consistency": "r_drop", "places": "fixed_length"},
    "mlm_nsp": {"rate": "mask_rate", "masked": "mask_token_share", "replaced": "random_token_share", "marks": "special_tokens"},
    "extractive_qa": {"longest": "max_answer_length", "threshold": "null_score_threshold"},
    "paired_images": {"error": "l1_weight", "adversarial": "adversarial_weight"},
    "cycle": {"cycle": "cycle_weight", "identity": "identity_weight"},
    "elbo": {"label": "classification_weight", "hide": "mask_size"},
    "semi_supervised_elbo": {"label": "classification_weight"},
    "adversarial": {
        "smoothing": "label_smoothing",
        "discriminator_turns": "discriminator_steps",
        "clip": "weight_clip",
        "penalty": "gradient_penalty",
        "matching": "feature_matching",
        "history": "historical_averaging",
        "adversarial": "adversarial_weight",
        "label": "classification_weight",
    },
    **alike((*ANNOTATED, "text", "python_source"), {"unit": "tokenizer"}),
    "sentence_pairs": {"unit": "tokenizer", "swapped": "negative_rate", "same": "same_document_rate"},
    "spans": {"unit": "tokenizer", "question": "max_question_length", "threshold": "null_score_threshold"},
    "pairs": PAIRS,
    "number_words": PAIRS,
    "t5_span_corruption": {"unit": "tokenizer", "rate": "corruption_rate", "mean": "mean_span_length"},
    "span_corruption": {
        "shortest": "min_length",
        "longest": "max_length",
        "questions_held": "questions_held_out",
        "inside": "keep_ends",
        "words": "whole_words",
        "thinned": "context_dropout",
        "closing": "final_mask",
        "predicted": "predicted_tokens",
    },
    "questions": {"held": "held_out", "held_seed": "held_out_seed"},
    "cooccurrence": {"minimum": "min_count"},
    "shards": {"documents": "document_mask"},
    "noise_only": {"held": "validation_examples"},
    "table": {"buckets": "hash_buckets", "pieces": "char_ngram"},
    "audio": {"rate": "sample_rate"},
    "images": {"window": "crop_size", "deviation": "std", "mix": "mixup"},
    "image_pairs": {"window": "crop_size"},
    "unpaired_images": {"window": "crop_size"},
    "augment": {"colour": "color_jitter"},
}
"""Settings by part: by its registry name or, where it has none, by the setting under which it stands; of a command by its module."""

MOVED = {"gpt": "speedrun_gpt"}
"""Where the switches of a part are now, under the names of SWITCHES: in a part that has all other settings of the first, too."""

VALUES: dict[str, dict[str, dict[Any, str]]] = {
    "train": {
        "activations": {"all": "none", "products": "selective", "inputs": "full"},
        "update": {"apart": "off", "fused": "on"},
    },
    "sample": {"walk": {"between": "interpolate", "along": "traverse"}, "way": {"there": "a2b", "back": "b2a"}},
}
"""Values of settings that were renamed, by the old name of the setting."""

PARAMETERS = re.compile(
    r"(?<=[./])(?:rise|fall|verdict|closeness)(?=[./])|(?<!\w)(?:generators|discriminators|lstm)[./](?:there|back|here)(?=[./])"
)
"""Segments of the names of tensors: of feed-forward networks, of a GAN's discriminator, of CycleGAN's networks and of a BiLSTM."""
SEGMENTS = {
    "fall": "down",
    "verdict": "head",
    "closeness": "minibatch_discrimination",
    "generators.there": "generators.a2b",
    "generators.back": "generators.b2a",
    "discriminators.here": "discriminators.a",
    "discriminators.there": "discriminators.b",
    "lstm.there": "lstm.forward_lstm",
    "lstm.back": "lstm.backward_lstm",
}
GATED = ("llama",)
"""Models whose feed-forward layers are always gated; others say so by a setting."""

log = logging.getLogger("weft")


def tell(old: str, new: str) -> None:
    log.warning("%s is now called %s", old, new)


def setting(part: str, name: str) -> str | None:
    """What an old setting is called now; None where no setting had this name."""
    return SETTINGS.get(part, {}).get(name)


def moved(part: str) -> dict[str, str]:
    """Switches that a part has no longer, and what they are called in the part that has them."""
    return SWITCHES if part in MOVED else {}


def value(part: str, name: str, given: Any) -> Any:
    """What an old setting was set to, in today's words."""
    return VALUES.get(part, {}).get(name, {}).get(given, given) if isinstance(given, str) else given


def entry(table: str, name: str) -> str | None:
    """What an old name of a table of the registry is called now."""
    return TOKENIZERS.get(name) if table == "tokenizers" else TYPES.get(name) if table in ("data", "objectives") else None


def recipe(data: Any, part: str = "") -> Any:
    """A recipe in its JSON form with today's names; one that has them already stays as it is."""
    if not isinstance(data, dict):
        return data
    kind = data.get("type")
    kind = TYPES.get(kind, kind) if isinstance(kind, str) else None
    part = kind or part
    switches = moved(part)
    if any(data.get(name) for name in switches):
        return recipe(data | {"type": MOVED[part]})
    changed = {"type": kind} if kind else {}
    for name, given in data.items():
        if name in switches:
            continue
        if name != "type":
            now = setting(part, name) or name
            changed[now] = recipe(value(part, name, given), now)
    return changed


def tokenizer(data: Any) -> Any:
    """A tokenizer in its JSON form with today's names, and those inside it."""
    if not isinstance(data, dict) or not isinstance(kind := data.get("type"), str):
        return data
    inside = {name: tokenizer(data[name]) for name in ("inner", "tokens") if name in data}
    return {**data, "type": TOKENIZERS.get(kind, kind), **inside}


def parameters(model: Any) -> Callable[[str], str]:
    """How the names of a model's parameters have changed, given its settings; they stand in the names of its optimiser's state, too."""
    settings = model if isinstance(model, dict) else {}
    gated = settings.get("type") in GATED or settings.get("gated") is True
    now = SEGMENTS | {"rise": "gate_up" if gated else "up"}
    now |= {old.replace(".", "/"): new.replace(".", "/") for old, new in now.items()}  # as historical averaging names its tensors
    return lambda name: PARAMETERS.sub(lambda found: now[found[0]], name)
