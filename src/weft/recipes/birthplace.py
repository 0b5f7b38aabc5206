"""Where were they born? A character Transformer reads one-line biographies, then learns to answer from what it remembers.

Pretraining hides a piece of a biography; finetuning asks about people, and evaluation about others. `questions` finetunes
whatever was pretrained: `weft train birthplace/questions --init runs/birthplace-rotary`.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

from weft.core.config import override
from weft.data.text.biographies import BiographiesConfig
from weft.data.text.questions import QuestionsConfig
from weft.data.text.span_corruption import SpanCorruptionConfig
from weft.models.language.gpt import GPTConfig
from weft.models.language.perceiver import PerceiverConfig
from weft.objectives.language.answer import AnswerConfig
from weft.objectives.language.next_token import NextTokenConfig
from weft.recipes.base import Progress, Recipe
from weft.training.optimizer.settings import AdamW, Muon
from weft.training.schedule import Schedule
from weft.training.settings import Train

WIKI, TRAIN, DEV = "birthplace/wiki.txt", "birthplace/birth_places_train.tsv", "birthplace/birth_dev.tsv"
DROPOUT: dict[str, Any] = {"embedding_dropout": 0.1, "attention_dropout": 0.1, "residual_dropout": 0.1}
MIXED: dict[str, Any] = {"whole_words": True, "context_dropout": 0.5, "final_mask": True, "questions": 0.2, "questions_path": TRAIN}
ACCURACY = Progress(metric="accuracy", goal="max")


def vanilla_model(position: Literal["learned", "rotary"] = "learned") -> GPTConfig:
    return GPTConfig(layers=4, heads=8, width=256, tie_embeddings=False, position_embedding=position, **DROPOUT)


def reference() -> Recipe:
    """The reference task's own model, data and length of pretraining; a warm-up, without which bf16 diverges at its rate.

    Run:      weft train birthplace/reference && weft train birthplace/questions --init runs/birthplace-reference
    """
    schedule = Schedule(kind="cosine", warmup=300, min_lr_ratio=0.1)
    return Recipe(
        data=SpanCorruptionConfig(path=WIKI, empty=True),
        model=vanilla_model(),
        objective=NextTokenConfig(),
        optim=AdamW(lr=6e-3, betas=(0.9, 0.95), weight_decay=0.1, clip_norm=1.0, schedule=schedule),
        train=Train(steps=14_950, batch=128, log_every=100, eval_every=0, save_every=5000),
    )


def perceiver() -> Recipe:
    """The reference's Perceiver: a learned basis of 64 latents between the first and the last block.

    Run:      weft train birthplace/perceiver && weft train birthplace/questions_perceiver --init runs/birthplace-perceiver
    """
    model = PerceiverConfig(layers=4, heads=8, width=256, latents=64, **DROPOUT)
    return override(changed(reference(), model=model), {"optim.lr": 3e-3})


def muon(lr: float) -> Muon:
    schedule = Schedule(kind="cosine", warmup=300, min_lr_ratio=0.1)
    return Muon(lr=lr, adamw_lr=2e-3, betas=(0.9, 0.95), weight_decay=0.1, clip_norm=1.0, schedule=schedule)


def rotary() -> Recipe:
    """The reference's size with rotary positions; whole words hidden, little around half of them, a fifth questions; Muon.

    Run:      weft train birthplace/rotary && weft train birthplace/questions_mixed --init runs/birthplace-rotary
    """
    data = SpanCorruptionConfig(path=WIKI, min_length=80, max_length=125, **MIXED)
    return changed(reference(), data=data, model=vanilla_model("rotary"), optim=muon(1e-2))


def perceiver_ar() -> Recipe:
    """A Perceiver that sees everything: its latents are the last 96 characters, and these are predicted.

    Run:      weft train birthplace/perceiver_ar && weft train birthplace/questions_mixed --init runs/birthplace-perceiver_ar
    """
    model = PerceiverConfig(layers=4, heads=8, width=256, latents=96, queries="last", position_embedding="rotary", **DROPOUT)
    # beyond the latents a character is seen, but not read: a name there could not be told from others, so documents are cut to fit
    data = SpanCorruptionConfig(path=WIKI, predicted_tokens=96, min_length=60, max_length=93, **MIXED)
    return changed(rotary(), data=data, model=model)


def best() -> Recipe:
    """A larger model of the same kind, with more dropout.

    Run:      weft train birthplace/best && weft train birthplace/questions_mixed --init runs/birthplace-best
    """
    dropout = {**DROPOUT, "embedding_dropout": 0.2, "residual_dropout": 0.2}
    model = GPTConfig(layers=8, heads=8, width=512, tie_embeddings=False, position_embedding="rotary", **dropout)
    return changed(rotary(), model=model, optim=muon(3e-3))


def questions() -> Recipe:
    """Learning to answer, after pretraining.

    Run:      weft train birthplace/questions --init runs/birthplace-reference
    """
    return Recipe(
        data=QuestionsConfig(path=TRAIN, vocabulary_path=WIKI, validation_path=DEV),
        model=vanilla_model(),
        objective=AnswerConfig(),
        optim=AdamW(lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1, clip_norm=1.0),
        train=Train(steps=80, batch=256, log_every=8, eval_every=80, save_every=0),
        progress=ACCURACY,
    )


def questions_perceiver() -> Recipe:
    """The same at a third of the rate, for the reference's Perceiver.

    Run:      weft train birthplace/questions_perceiver --init runs/birthplace-perceiver
    """
    return override(questions(), {"optim.lr": 2e-4})


def questions_mixed() -> Recipe:
    """The same, gently, every name as it is written: for a model that met questions in pretraining.

    Run:      weft train birthplace/questions_mixed --init runs/birthplace-best
    """
    optim = AdamW(lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, clip_norm=1.0)
    data = QuestionsConfig(path=TRAIN, vocabulary_path=WIKI, validation_path=DEV, ascii=False)
    return changed(questions(), data=data, optim=optim, train=Train(steps=10, batch=256, log_every=10, eval_every=10, save_every=0))


def questions_only() -> Recipe:
    """Learning to answer without having read anything: what can be guessed from names.

    Run:      weft train birthplace/questions_only
    """
    return changed(questions(), train=Train(steps=600, batch=256, log_every=20, eval_every=600, save_every=0))


MADE_UP: dict[str, Any] = {"context": 72, "biographies": BiographiesConfig(people=500, places=100)}
SMALL: dict[str, Any] = {"layers": 3, "heads": 4, "width": 128, "position_embedding": "rotary"}


def made_up() -> Recipe:
    """Reading about 500 made-up people, for a CPU: the longest part of `weft quickstart`.

    Run:      weft train birthplace/made_up && weft train birthplace/made_up_questions --init runs/birthplace-made_up
    """
    schedule = Schedule(kind="cosine", warmup=50, min_lr_ratio=0.05)
    return Recipe(
        data=SpanCorruptionConfig(min_length=40, final_mask=True, **MADE_UP),
        model=GPTConfig(tie_embeddings=False, **SMALL),
        objective=NextTokenConfig(),
        optim=Muon(lr=5e-3, adamw_lr=5e-3, weight_decay=0.1, clip_norm=1.0, schedule=schedule),
        train=Train(steps=1900, batch=32, log_every=50, eval_every=0, save_every=500),
    )


def made_up_perceiver() -> Recipe:
    """The same with a Perceiver whose latents are the last 64 characters.

    Run:      weft train birthplace/made_up_perceiver
    """
    data = SpanCorruptionConfig(min_length=40, max_length=61, final_mask=True, predicted_tokens=64, **(MADE_UP | {"context": 65}))
    model = PerceiverConfig(queries="last", latents=64, context=MADE_UP["context"], **SMALL)  # room for the longest question
    return changed(made_up(), data=data, model=model, train=dataclasses.replace(made_up().train, steps=1700))


def made_up_questions() -> Recipe:
    """Learning to answer questions about half of the made-up people; it is asked about the other half.

    Run:      weft train birthplace/made_up_questions --init runs/birthplace-made_up
    """
    return Recipe(
        data=QuestionsConfig(**MADE_UP),
        model=made_up().model,
        objective=AnswerConfig(),
        optim=AdamW(lr=5e-5, betas=(0.9, 0.95), weight_decay=0.1, clip_norm=1.0),
        train=Train(steps=80, batch=32, log_every=10, eval_every=80, save_every=0),
        progress=ACCURACY,
    )


def made_up_only() -> Recipe:
    """Learning to answer without having read anything, until every question it is trained on is answered.

    Run:      weft train birthplace/made_up_only
    """
    train = Train(steps=250, batch=32, log_every=10, eval_every=250, save_every=0)
    return changed(made_up_questions(), optim=made_up().optim, train=train)


def changed(recipe: Recipe, **parts: object) -> Recipe:
    return dataclasses.replace(recipe, **parts)  # type: ignore[arg-type]
