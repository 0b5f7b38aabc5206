"""BERT as Hugging Face writes it: for pretraining, or with the head of another task."""

from __future__ import annotations

from typing import Any

from weft.convert.family import ACTIVATIONS, Family, activation, need, only, setting
from weft.convert.labels import count
from weft.convert.table import Ignore, Join, Rename, Row, Same, Table
from weft.core.errors import CheckpointError
from weft.models.language.bert import BERTConfig, Task

ARCHITECTURES: dict[Task, str] = {
    "pretrain": "BertForPreTraining",
    "classify": "BertForSequenceClassification",
    "tag": "BertForTokenClassification",
    "answer": "BertForQuestionAnswering",
    "choose": "BertForMultipleChoice",
}
RECIPES = {"classify": "bert/classify", "tag": "bert/tags", "answer": "bert/answers", "choose": "bert/choice"}
SEVERAL = "multi_label_classification"


def task_of(config: dict[str, Any]) -> Task:
    """What the head of a foreign model is for; one that has no head of a task, or only that of tokens, is one to train further."""
    written = config.get("architectures") or [""]
    found: Task = next((task for task, name in ARCHITECTURES.items() if name == written[0]), "pretrain")
    if found == "classify" and config.get("problem_type") == SEVERAL:
        raise CheckpointError(f"config.json: problem_type is {SEVERAL!r}; weft's BERT tells one class of a text, or a number")
    if found == "classify" and config.get("problem_type") == "regression" and count(config) != 1:
        raise CheckpointError(f"config.json: problem_type is 'regression' with {count(config)} labels; weft's BERT tells one number")
    if found == "pretrain" and written[0] != "BertModel":
        need(config, tie_word_embeddings=True)
    return found


def settings(config: dict[str, Any]) -> BERTConfig:
    need(config, position_embedding_type="absolute", is_decoder=False, add_cross_attention=False)
    task = task_of(config)
    return BERTConfig(
        task=task,
        classes=count(config) if task in ("classify", "tag") else 0,
        vocabulary=setting(config, "vocab_size"),
        context=setting(config, "max_position_embeddings"),
        segments=config.get("type_vocab_size", 2),
        layers=setting(config, "num_hidden_layers"),
        heads=setting(config, "num_attention_heads"),
        width=setting(config, "hidden_size"),
        ffn_width=setting(config, "intermediate_size"),
        activation=activation(config.get("hidden_act", "gelu")),  # type: ignore[arg-type]
        dropout=config.get("hidden_dropout_prob", 0.1),
        attention_dropout=config.get("attention_probs_dropout_prob", 0.1),
        eps=config.get("layer_norm_eps", 1e-12),
        init_std=config.get("initializer_range", 0.02),
    )


def describe(c: BERTConfig) -> dict[str, Any]:
    only(c, causal=False, lstm=False)
    extra: dict[str, Any] = {"num_labels": c.classes} if c.task in ("classify", "tag") else {}
    if c.task == "classify":
        extra["problem_type"] = "regression" if c.classes == 1 else "single_label_classification"
    return {
        "architectures": [ARCHITECTURES[c.task]],
        "model_type": "bert",
        "vocab_size": c.vocabulary,
        "max_position_embeddings": c.context,
        "type_vocab_size": c.segments,
        "num_hidden_layers": c.layers,
        "num_attention_heads": c.heads,
        "hidden_size": c.width,
        "intermediate_size": c.ffn_width or 4 * c.width,
        "hidden_act": ACTIVATIONS[c.activation],
        "hidden_dropout_prob": c.dropout,
        "attention_probs_dropout_prob": c.attention_dropout,
        "layer_norm_eps": c.eps,
        "initializer_range": c.init_std,
        **extra,
    }


BOTH = ("weight", "bias")
LAYER = {
    "attention.output.dense": "attention.out",
    "attention.output.LayerNorm": "norm1",
    "intermediate.dense": "feedforward.up",
    "output.dense": "feedforward.down",
    "output.LayerNorm": "norm2",
}
BODY = {"bert.embeddings.LayerNorm": "norm", "bert.pooler.dense": "pooler"}
TOKEN_HEADS = {
    "cls.predictions.transform.dense": "head.transform",
    "cls.predictions.transform.LayerNorm": "head.norm",
    "cls.seq_relationship": "pair_head",
}


def table(c: BERTConfig) -> Table:
    layer, block = "bert.encoder.layer.{i}.", "blocks.{i}."
    rows: list[Row] = [
        Rename("bert.embeddings.word_embeddings.weight", "embed.weight"),
        Rename("bert.embeddings.position_embeddings.weight", "position.weight"),
        Rename("bert.embeddings.token_type_embeddings.weight", "segment.weight"),
        Ignore("bert.embeddings.position_ids"),
    ]
    heads = {"qa_outputs" if c.task == "answer" else "classifier": "head"}
    if c.task == "pretrain":
        heads = TOKEN_HEADS
        rows += [
            Rename("cls.predictions.bias", "head.decoder.bias"),
            Same("cls.predictions.decoder.bias", "cls.predictions.bias"),
            Same("cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"),
        ]
    for part in BOTH:
        rows += [Rename(f"{foreign}.{part}", f"{own}.{part}") for foreign, own in {**BODY, **heads}.items()]
        rows += [Rename(f"{layer}{foreign}.{part}", f"{block}{own}.{part}") for foreign, own in LAYER.items()]
        rows.append(Join(tuple(f"{layer}attention.self.{q}.{part}" for q in ("query", "key", "value")), f"{block}attention.qkv.{part}"))
    return Table(rows, prefix="bert.")


def finetuned(c: BERTConfig) -> str:
    return "bert/score" if c.task == "classify" and c.classes == 1 else RECIPES.get(c.task, "")


FAMILY = Family("bert/pairs", BERTConfig, settings, describe, table, ("head.", "pair_head.", "pooler."), finetuned)
