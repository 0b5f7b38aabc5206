"""What the verbs of the command do with a trained model, by what it is and what it was trained for.

`weft train`, `weft train --init`, `weft evaluate` and `weft report` take every model. What the others make of one is said here, of
which docs/verbs.md is made, and tests/contracts/test_verbs.py holds the command to it, cell by cell: an empty cell is refused in
one sentence that says why.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

CONTINUES, ANSWERS, DRAWS, POINTS, TRANSLATES_IMAGES = (
    "continues a text",
    "answers a text",
    "draws images",
    "draws points",
    "translates images",
)
WORDS, PICTURE, TEXT, SOUND = "nearest words", "class of an image", "class of a text", "class of a sound"
LABELS, DETECTS = "labels of a text", "frames objects"
SPEECH = "transcript of a sound"
LIKELIHOOD, VECTOR = "likelihood, vector of a text", "vector of a text"
SPEAKS = ("completions", "chat", "embeddings")


@dataclass(frozen=True)
class Uses:
    sample: str = ""
    """What `weft sample` gives."""
    predict: str = ""
    """What `weft predict` tells of each row of a file."""
    serve: tuple[str, ...] = ()
    """Routes of `weft serve` that it answers."""
    continues: bool = False
    """Whether `weft prompt --ask` and the tasks of `weft evaluate` take it."""
    convert: tuple[str, ...] = ()
    """Foreign formats that `weft convert` writes it in, and reads."""
    where: dict[str, Any] = field(default_factory=dict)
    """Settings without which no foreign format can hold it."""


def drawing(what: str = DRAWS) -> Uses:
    return Uses(what, serve=("images",) if what == DRAWS else ())


def speaking(*convert: str, **where: Any) -> Uses:
    return Uses(CONTINUES, LIKELIHOOD, SPEAKS, True, convert, {f"model.{name}": value for name, value in where.items()})


def predicting(what: str, *convert: str, text: bool = True) -> Uses:
    routes = ("embeddings",) if what == WORDS else ("embeddings", "predictions") if text else ("predictions",)
    return Uses(what, VECTOR if what == WORDS else what, routes, False, convert)


MARIAN = {"model.norm": "post", "model.interleaved_positions": False, "model.output_bias": True}
USES: dict[tuple[str, str], Uses] = {
    ("gpt", "next_token"): speaking("gpt2", position_embedding="learned"),
    ("gpt", "answer"): speaking("gpt2"),
    ("gpt", "finetuning"): Uses(TEXT, TEXT, (*SPEAKS, "predictions"), True, where={"model.position_embedding": "learned"}),
    ("speedrun_gpt", "next_token"): speaking(),
    ("llama", "next_token"): speaking("llama"),
    ("rnn_lm", "truncated_bptt"): speaking(),
    ("min_gru", "truncated_bptt"): speaking(),
    ("perceiver", "next_token"): speaking(),
    ("bert", "mlm_nsp"): predicting(WORDS, "bert"),
    ("bert", "next_token"): speaking(),
    ("bert", "classification"): predicting(TEXT, "bert"),
    ("bert", "regression"): predicting("regression", "bert"),
    ("bert", "multiple_choice"): predicting("multiple choice", "bert"),
    ("bert", "extractive_qa"): predicting("extractive question answering", "bert"),
    ("bert", "token_classification"): predicting("token classification", "bert"),
    ("t5", "seq2seq"): Uses(ANSWERS, serve=("completions",), convert=("t5",)),
    ("pointer_generator", "seq2seq"): Uses(ANSWERS, serve=("completions",)),
    ("pointer_network", "pointing"): Uses(),
    **{
        ("transformer", objective): Uses(ANSWERS, serve=("completions",), convert=("marian",), where=MARIAN)
        for objective in ("seq2seq", "scheduled_sampling", "minimum_risk", "policy_gradient")
    },
    **{("rnn_seq2seq", objective): Uses(ANSWERS, serve=("completions",)) for objective in ("seq2seq", "minimum_risk")},
    ("nonautoregressive", "cmlm"): Uses(ANSWERS, serve=("completions",)),
    ("mlp", "classification"): predicting(PICTURE, text=False),
    ("mlp", "regression"): predicting("regression of a row", text=False),
    ("convnet", "classification"): predicting(PICTURE, text=False),
    ("resnet", "classification"): predicting(PICTURE, "timm-resnet", text=False),
    ("preact_resnet", "classification"): predicting(PICTURE, text=False),
    ("densenet", "classification"): predicting(PICTURE, "timm-densenet", text=False),
    ("highway", "classification"): predicting(PICTURE, text=False),
    ("detr", "detection"): Uses(DETECTS),
    ("vit", "classification"): predicting(PICTURE, "vit", text=False),
    ("swin", "classification"): predicting(PICTURE, "swin", text=False),
    ("vae", "elbo"): drawing(),
    ("conditional_vae", "elbo"): drawing(),
    ("semi_supervised_vae", "semi_supervised_elbo"): drawing(),
    ("gan", "adversarial"): drawing(),
    ("dcgan", "adversarial"): drawing(),
    ("bigan", "bidirectional"): drawing(),
    ("pix2pix", "paired_images"): Uses(TRANSLATES_IMAGES),
    ("cyclegan", "cycle"): Uses(TRANSLATES_IMAGES),
    ("rbm", "contrastive_divergence"): drawing(),
    ("boltzmann", "boltzmann_learning"): drawing(),
    ("hopfield", "associative_memory"): drawing(),
    ("realnvp", "likelihood"): drawing(POINTS),
    ("realnvp_images", "likelihood"): drawing(),
    ("maf", "likelihood"): drawing(POINTS),
    ("iaf", "reverse_kl"): drawing(POINTS),
    ("distilled", "density_distillation"): drawing(POINTS),
    ("planar", "reverse_kl"): drawing(POINTS),
    ("pixelcnn", "likelihood"): drawing(),
    ("gated_pixelcnn", "likelihood"): drawing(),
    ("word2vec", "negative_sampling"): predicting(WORDS, "word vectors"),
    ("fasttext", "classification"): Uses(TEXT, TEXT, ("predictions",)),
    ("fasttext", "multi_label"): Uses(LABELS, LABELS, ("predictions",)),
    ("elmo", "bilm"): Uses(predict=VECTOR, serve=("embeddings",)),
    ("elmo", "token_classification"): predicting("token classification"),
    ("tagger", "token_classification"): predicting("token classification"),
    ("speaker_encoder", "classification"): Uses(),
    ("audio_classifier", "classification"): predicting(SOUND, text=False),
    ("conformer_ctc", "ctc"): predicting(SPEECH, text=False),
    ("transducer", "rnnt"): predicting(SPEECH, text=False),
    ("las", "ctc_attention"): predicting(SPEECH, text=False),
    ("conformer_aed", "ctc_attention"): predicting(SPEECH, text=False),
    ("word2vec", "hierarchical_softmax"): predicting(WORDS, "word vectors"),
    ("word2vec", "nce"): predicting(WORDS, "word vectors"),
    ("word2vec", "full_softmax"): predicting(WORDS, "word vectors"),
}
"""By the registry names of model and objective."""


def recipes() -> dict[tuple[str, str], list[str]]:
    """The recipes of each pair of model and objective."""
    from weft.core import registry
    from weft.recipes.base import recipe

    found: dict[tuple[str, str], list[str]] = {}
    for name in registry.RECIPES:
        made = recipe(name)
        pair = registry.name_of(type(made.model)) or "", registry.name_of(type(made.objective)) or ""
        found.setdefault(pair, []).append(name)
    return found
