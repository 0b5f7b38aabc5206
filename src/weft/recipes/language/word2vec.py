"""Word vectors."""

from __future__ import annotations

from weft.data.text.cooccurrence import CooccurrenceConfig
from weft.models.language.word2vec import Word2VecConfig
from weft.objectives.language.negative_sampling import NegativeSamplingConfig
from weft.recipes.base import Recipe
from weft.training.optimizer.settings import Adam
from weft.training.schedule import Schedule
from weft.training.settings import Train


def source() -> Recipe:
    """Skip-gram word vectors on the docstrings and comments of Python's standard library, or on your own text.

    Run:      weft train word2vec/source
              weft train word2vec/source --data.path my.txt
    """
    return Recipe(
        data=CooccurrenceConfig(),
        model=Word2VecConfig(width=64),
        objective=NegativeSamplingConfig(negatives=5),
        optim=Adam(lr=1e-2, schedule=Schedule(kind="linear")),
        train=Train(steps=2000, batch=256, eval_every=250, eval_examples=4096),
    )
