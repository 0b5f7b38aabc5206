"""Texts classified by the mean of the vectors of their words and n-grams."""

from __future__ import annotations

from weft.data.annotated.bags import BagsConfig
from weft.models.language.fasttext import FastTextConfig
from weft.objectives.classification import ClassificationConfig
from weft.recipes.base import Progress, Recipe
from weft.training.optimizer.settings import Adam
from weft.training.schedule import Schedule
from weft.training.settings import Train


def classify() -> Recipe:
    """fastText's classifier on docstrings of Python's standard library, by their package, or on your own texts: TSV, CSV, JSONL, __label__.

    Run:      weft train fasttext/classify
              weft train fasttext/classify --data.path mine.tsv
              weft train fasttext/classify --data.path reviews.txt --data.minn 3 --data.maxn 6
    """
    return Recipe(
        data=BagsConfig(),
        model=FastTextConfig(width=32),
        objective=ClassificationConfig(inputs=("ids", "segments", "lengths")),
        optim=Adam(lr=1e-2, schedule=Schedule(kind="linear")),
        train=Train(steps=400, batch=64, log_every=50, eval_every=100, save_every=200, keep_checkpoints=1),
        progress=Progress(metric="accuracy", goal="max"),
    )
