"""BERT on pairs of sentences."""

from __future__ import annotations

from weft.data.sentence_pairs import SentencePairsConfig
from weft.models.bert import BERTConfig
from weft.objectives.masked_pair import MaskedPairConfig
from weft.recipes.base import Recipe
from weft.training.optim import AdamW
from weft.training.schedule import Schedule
from weft.training.settings import Train


def pairs() -> Recipe:
    """Masked tokens and sentence pairs on the docstrings of Python's standard library, or on your own text.

    Run:      weft train bert/pairs
              weft train bert/pairs --data.path my.txt
    """
    return Recipe(
        data=SentencePairsConfig(context=32, vocabulary=2000),
        model=BERTConfig(layers=2, heads=4, width=64, dropout=0.0, attention_dropout=0.0, deviation=0.1),
        objective=MaskedPairConfig(),
        optim=AdamW(lr=3e-3, clip_norm=1.0, schedule=Schedule(kind="linear", warmup=100)),
        train=Train(steps=2000, batch=32, eval_every=250, eval_examples=1024),
    )
