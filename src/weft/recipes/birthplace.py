"""Where were they born? A character Transformer reads one-line biographies, then learns to answer from what it remembers.

Pretraining hides a piece of a biography; finetuning asks about people, and evaluation about others. `questions` finetunes
whatever was pretrained: `weft train birthplace/questions --init runs/birthplace-rotary`.
"""

from __future__ import annotations

import dataclasses

from weft.data.biographies import BiographiesConfig
from weft.data.corruption import SpanCorruptionConfig
from weft.data.questions import QuestionsConfig
from weft.models.gpt import GPTConfig
from weft.models.perceiver import PerceiverConfig
from weft.objectives.answer import AnswerConfig
from weft.objectives.next_token import NextTokenConfig
from weft.recipes.base import Progress, Recipe
from weft.training.optim import AdamW, Muon
from weft.training.schedule import Schedule
from weft.training.settings import Train

WIKI, TRAIN, DEV = "birthplace/wiki.txt", "birthplace/birth_places_train.tsv", "birthplace/birth_dev.tsv"
DROPOUT = {"embedding_dropout": 0.1, "attention_dropout": 0.1, "residual_dropout": 0.1}
ACCURACY = Progress(metric="accuracy", goal="max")


def vanilla_model(position: str = "learned") -> GPTConfig:
    return GPTConfig(layers=4, heads=8, width=256, tied=False, position=position, **DROPOUT)  # type: ignore[arg-type]


def reference() -> Recipe:
    """The reference task's own model and length of pretraining.

    Run:      weft train birthplace/reference && weft train birthplace/questions --init runs/birthplace-reference
    """
    return Recipe(
        data=SpanCorruptionConfig(path=WIKI, empty=True),
        model=vanilla_model(),
        objective=NextTokenConfig(),
        optim=AdamW(lr=2e-3, betas=(0.9, 0.95), weight_decay=0.1, clip_norm=1.0, schedule=Schedule(kind="cosine", warmup=300, floor=0.1)),
        train=Train(steps=14_950, batch=128, log_every=100, eval_every=0, save_every=5000),
    )


def perceiver() -> Recipe:
    """The reference's Perceiver: a learned basis of 64 latents between the first and the last block.

    Run:      weft train birthplace/perceiver && weft train birthplace/questions --init runs/birthplace-perceiver
    """
    return changed(reference(), model=PerceiverConfig(layers=4, heads=8, width=256, bottleneck=64, **DROPOUT))


def rotary() -> Recipe:
    """The reference's size with rotary positions.

    Run:      weft train birthplace/rotary && weft train birthplace/questions --init runs/birthplace-rotary
    """
    return changed(reference(), model=vanilla_model("rotary"))


def perceiver_ar() -> Recipe:
    """A Perceiver that sees everything: its latents are the last 64 characters, and these are predicted.

    Run:      weft train birthplace/perceiver_ar && weft train birthplace/questions --init runs/birthplace-perceiver_ar
    """
    model = PerceiverConfig(layers=4, heads=8, width=256, bottleneck=64, queries="last", position="rotary", **DROPOUT)
    return changed(reference(), model=model, data=SpanCorruptionConfig(path=WIKI, predicted=64))


def questions() -> Recipe:
    """Learning to answer, after pretraining.

    Run:      weft train birthplace/questions --init runs/birthplace-rotary
    """
    return Recipe(
        data=QuestionsConfig(path=TRAIN, vocabulary_path=WIKI, validation_path=DEV),
        model=vanilla_model(),
        objective=AnswerConfig(),
        optim=AdamW(lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1, clip_norm=1.0),
        train=Train(steps=80, batch=256, log_every=8, eval_every=80, save_every=0),
        progress=ACCURACY,
    )


def questions_only() -> Recipe:
    """Learning to answer without having read anything: what can be guessed from names.

    Run:      weft train birthplace/questions_only
    """
    return changed(questions(), train=Train(steps=600, batch=256, log_every=20, eval_every=600, save_every=0))


def changed(recipe: Recipe, **parts: object) -> Recipe:
    return dataclasses.replace(recipe, **parts)  # type: ignore[arg-type]
