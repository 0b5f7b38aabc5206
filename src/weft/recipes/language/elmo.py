"""ELMo, and BiLSTM taggers with and without its features."""

from __future__ import annotations

from weft.data.annotated.python_tags import PythonTagsConfig
from weft.data.text.bilm import BiLMSentencesConfig
from weft.models.language.elmo import ELMoConfig
from weft.models.language.tagger import TaggerConfig
from weft.objectives.language.bilm import BiLMConfig
from weft.objectives.language.token_classification import TokenClassificationConfig
from weft.recipes.base import Progress, Recipe
from weft.training.optimizer.settings import Adam
from weft.training.schedule import Schedule
from weft.training.settings import Train

SMALL = ELMoConfig(kernels=(1, 2, 3, 4, 5), filters=(16, 32, 64, 64, 64), highways=1, width=256, projection=64)
"""Small enough for two cores."""


def pretrain() -> Recipe:
    """A language model in both directions on the docstrings of Python's standard library, or on your own text.

    Run:      weft train elmo/pretrain
              weft train elmo/pretrain --data.path my.txt
    """
    return Recipe(
        data=BiLMSentencesConfig(vocabulary=5000),
        model=SMALL,
        objective=BiLMConfig(),
        optim=Adam(lr=3e-3, clip_norm=1.0, schedule=Schedule(kind="cosine", warmup=50, min_lr_ratio=0.1)),
        train=Train(steps=300, batch=32, eval_every=100, eval_examples=512),
    )


def elmo_tags() -> Recipe:
    """The role of each token of Python source, or tags of your own words, from all layers of ELMo, which stays as it is.

    Run:      weft train tagger/elmo --init runs/elmo-pretrain
              weft train tagger/elmo --data.path mine.tsv --init runs/elmo-pretrain
              weft train tagger/elmo --data.path nltk/brown.zip --data.cut=-+* --init runs/elmo-pretrain
    """
    return Recipe(
        data=PythonTagsConfig(tokenizer="word_characters", context=512),
        model=ELMoConfig(
            task="tag", kernels=SMALL.kernels, filters=SMALL.filters, highways=1, width=SMALL.width, projection=SMALL.projection
        ),
        objective=TokenClassificationConfig(),
        optim=Adam(lr=2e-3, clip_norm=1.0, schedule=Schedule(kind="linear", warmup=50)),
        train=Train(steps=500, batch=32, eval_every=250, eval_examples=2000),
        progress=Progress(metric="accuracy", goal="max"),
    )


def words() -> Recipe:
    """The role of each token of Python source, or tags of your own words, by an LSTM in each direction over one vector for each word.

    Run:      weft train tagger/words
              weft train tagger/words --data.path mine.tsv
              weft train tagger/words --data.path nltk/brown.zip --data.cut=-+*
    """
    return Recipe(
        data=PythonTagsConfig(tokenizer="tagger_words"),
        model=TaggerConfig(),
        objective=TokenClassificationConfig(),
        optim=Adam(lr=2e-3, clip_norm=1.0, schedule=Schedule(kind="linear", warmup=50)),
        train=Train(steps=500, batch=32, eval_every=250, eval_examples=2000),
        progress=Progress(metric="accuracy", goal="max"),
    )
